"""Imports inside core go downward only, plugins use public names only, and the import graph stays small."""

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core" / "src" / "llmperf"

FLOORS = (
    *("errors", "lazy", "hookspecs", "types", "files", "plugins", "accounting", "tokens", "cases"),
    *("planning", "runfolder", "measuring", "launching", "results", "validation", "reporting", "running", "cli"),
)
"""The modules and packages of core, lowest first. Each may import itself and those before it."""

TOP_LEVEL_FILES = {"__init__.py", "__main__.py", "errors.py", "hookspecs.py", "lazy.py", "py.typed", "vendorkit.py"}

LISTING = {f"llmperf.{name}" for name in ("accounting", "launching", "planning", "plugins", "reporting", "validation")}
PUBLIC = {"llmperf", "llmperf.types", "llmperf.hookspecs", "llmperf.errors", "llmperf.lazy"} | LISTING
"""What plugins may import of core; of packages that list public names, these."""

SHARED = {
    "vendors": {"llmperf_vendorkit"},
    "frameworks": {"llmperf_torchkit", "llmperf_pytorch", "llmperf_zero"},
    "examples": {"llmperf_vendorkit"},
    "llmperf_compare": {"llmperf_trace"},
    "llmperf_estimate": {"llmperf_compare", "llmperf_huggingface", "llmperf_inspect", "llmperf_trace"},
    "llmperf_lora": {"llmperf_datasets", "llmperf_huggingface"},
    "llmperf_trace": {"llmperf_compare"},
    "llmperf_transformers": {"llmperf_huggingface"},
    "llmperf_fuzz": {"llmperf_inspect"},
    "llmperf_html": {"llmperf_compare", "llmperf_trace", "llmperf_verify"},
    "llmperf_huggingface": {"llmperf_inspect"},
    "llmperf_published": {"llmperf_vendorkit"},
}
"""Packages of this project that plugins of a role, or one plugin, may import."""

MAX_CORE_PACKAGES = 24
"""`llmperf` and its floors. What leaves the core becomes a package of its own, so that those are not counted."""
MAX_ARROWS = 180
"""Between floors of core, and between distributions. What a plugin uses of core counts once: all of it is public."""

PLUGINS = sorted(path for role in ("vendors", "frameworks", "launchers", "extensions", "examples")
                 for path in ROOT.glob(f"{role}/*/src/*"))  # fmt: skip
SOURCES = sorted(path for path in ROOT.glob("*/src")) + sorted(
    path for role in ("vendors", "frameworks", "launchers", "extensions") for path in ROOT.glob(f"{role}/*/src")
)


@cache
def parsed(path):
    """The syntax of a file."""
    return ast.parse(path.read_text())


def imported_modules(path, inside_functions=True, for_type_checkers=True):
    """The absolute names that a file imports; `from a import b` gives `a.b`."""
    tree = parsed(path)
    skipped = set()
    if not for_type_checkers:
        blocks = [
            node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        ]
        skipped = {inner for block in blocks for inner in ast.walk(block)}
    for node in ast.walk(tree) if inside_functions else tree.body:
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def core_imports():
    """Each import between the floors of core: file, floor of the imported name, imported name."""
    for path in sorted(CORE.rglob("*.py")):
        if path == CORE / "__init__.py":  # the lazy table of public names
            continue
        for module in imported_modules(path, for_type_checkers=path.name != "hookspecs.py"):
            parts = module.split(".")
            if parts[0] == "llmperf" and len(parts) > 1 and parts[1] in FLOORS:
                yield path, parts[1], module


def test_core_has_the_floors_and_nothing_else():
    folders = {path.name for path in CORE.iterdir() if any(path.glob("*.py"))}
    files = {path.name for path in CORE.iterdir() if path.is_file() or path.is_symlink()} - {"data"}
    assert folders == set(FLOORS) - {"errors", "hookspecs", "lazy"}
    assert files == TOP_LEVEL_FILES


def test_the_document_lists_the_floors_in_their_order():
    document = (ROOT / "docs" / "architecture.md").read_text()
    table = document.split("## Floors of the core")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [f for f in FLOORS if (CORE / f).is_dir()]


def test_core_imports_go_downward():
    upward = set()
    for path, floor, module in core_imports():
        own = path.relative_to(CORE).parts[0].removesuffix(".py")
        if own in FLOORS and FLOORS.index(floor) > FLOORS.index(own):
            upward.add((path.relative_to(CORE).as_posix(), ".".join(module.split(".")[:3])))
    assert not upward, "\n".join(f"{path} imports {module}, of a higher floor" for path, module in sorted(upward))


def test_modules_do_not_import_each_other_in_a_circle():
    circles = import_circles()
    assert not circles, "modules that import each other:\n" + "\n".join(map(" ".join, sorted(circles)))


def import_circles():
    """Groups of modules that reach each other by imports, also by those inside functions; not by those of types."""
    modules = {
        ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"): path
        for folder in SOURCES
        for path in folder.rglob("*.py")
    }
    imports = {
        name: {owner for used in imported_modules(path, for_type_checkers=False)
               if (owner := used if used in modules else used.rpartition(".")[0]) in modules and owner != name}
        for name, path in modules.items()
    }  # fmt: skip
    reached: dict[str, set[str]] = {}
    for name in modules:
        reached[name], waiting = set(), [name]
        while waiting:
            new = imports[waiting.pop()] - reached[name]
            reached[name] |= new
            waiting += new
    circular = [name for name in modules if name in reached[name]]
    return {tuple(sorted(other for other in circular if {name, other} <= reached[name] & reached[other]))
            for name in circular}  # fmt: skip


def test_the_import_graph_stays_small():
    arrows, packages = set(), set()
    names = {source.name for folder in SOURCES for source in folder.iterdir()}
    for folder in SOURCES:
        for path in folder.rglob("*.py"):
            own = package_of(".".join(path.relative_to(folder).with_suffix("").parts))
            packages.add(own)
            for module in imported_modules(path):
                if module.split(".")[0] in names and (other := package_of(module)) != own:
                    arrows.add((own, other if own.startswith("llmperf.") else other.partition(".")[0]))
    of_core = sorted(name for name in packages if name.partition(".")[0] == "llmperf")
    assert len(of_core) <= MAX_CORE_PACKAGES, of_core
    assert len(arrows) <= MAX_ARROWS, sorted(arrows)


def package_of(module):
    """A package of core (`llmperf.types`), or the whole top-level package of another distribution."""
    parts = module.split(".")
    in_core = parts[0] == "llmperf" and len(parts) > 1 and (CORE / parts[1]).is_dir()
    return ".".join(parts[: 2 if in_core else 1])


@pytest.mark.parametrize("package", PLUGINS, ids=lambda path: path.name)
def test_plugins_use_only_the_public_surface(package):
    role = package.parents[2].name
    allowed = {package.name, "llmperf_schemas"} | SHARED.get(role, set()) | SHARED.get(package.name, set())
    for path in package.rglob("*.py"):
        for module in imported_modules(path):
            top = module.split(".")[0]
            if top == "llmperf":
                home = home_of(module)
                assert home in PUBLIC, f"{path.relative_to(ROOT)} imports {module}, which is not public"
                if home in LISTING and module != home:
                    name = module.removeprefix(f"{home}.")
                    assert name in import_module(home).__all__, f"{path.relative_to(ROOT)}: {home} does not list {name}"
            elif top.startswith("llmperf_"):
                assert top in allowed, f"{path.relative_to(ROOT)} imports {module}"


def home_of(module):
    """The module or package at the top of core that an imported name belongs to."""
    parts = module.split(".")
    at_top = len(parts) == 1 or not any((CORE / name).exists() for name in (parts[1], f"{parts[1]}.py"))
    return "llmperf" if at_top else ".".join(parts[:2])


@pytest.mark.parametrize(
    "package", [path for path in PLUGINS if (path / "plugin.py").exists()], ids=lambda path: path.name
)
def test_plugin_modules_import_nothing_heavy(package):
    standard = {"__future__", "typing", "collections", "pathlib", "os", "sys", "functools"}
    for module in imported_modules(package / "plugin.py", inside_functions=False):
        assert module.split(".")[0] in {"llmperf", "llmperf_torchkit", package.name} | standard, module
