"""Imports go one way, and plugins use only what is public."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core" / "src" / "llmperf"

LAYERS = (
    {"errors", "asking", "redaction", "documents", "rundir", "cachedir", "vendor_tool", "accelerator"},
    {"types"},
    {"hookspecs"},
    {"discovery", "blame", "requirements", "mending", "plugins"},
    {"accounting", "tokens"},
    {"cases"},
    {"peaks", "choice"},
    {"planning"},
    {"launching", "measuring", "results", "importing"},
    {"validation", "reporting"},
    {"running", "doctoring", "packing", "baselines", "scaffold"},
    {"testing"},
    {"cli"},
)
"""Each may import itself and what stands before it. `builtin` ties the core's own answers to the hooks, lazily."""

PUBLIC = {"llmperf", "llmperf.types", "llmperf.hookspecs", "llmperf.errors"}
"""What plugins may import; their tests may import `llmperf_testing` too."""

SHARED = {"llmperf_pytorch", "llmperf_zero"}
"""Frameworks that others may build on: what torch frameworks share, and what those on DeepSpeed share."""

PLUGINS = sorted(path for role in ("vendors", "frameworks", "examples") for path in (ROOT / role).glob("*/src/*"))


def level(part: str) -> int | None:
    return next((rank for rank, layer in enumerate(LAYERS) if part in layer), None)


def imports(path: Path, lazy: bool) -> Iterator[str]:
    """Modules that a file imports; those inside functions too if `lazy`. Imports for type checkers do not count."""
    tree = ast.parse(path.read_text())
    skipped = {
        inner for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }  # fmt: skip
    for node in ast.walk(tree) if lazy else tree.body:
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: str(path.relative_to(CORE)))
def test_the_core_imports_one_way(path):
    own = level(path.relative_to(CORE).parts[0].removesuffix(".py"))
    if own is None:
        return
    for module in imports(path, lazy=True):
        parts = module.split(".")
        if parts[0] == "llmperf" and len(parts) > 1 and (other := level(parts[1])) is not None:
            assert other <= own, f"{path.relative_to(ROOT)} imports {module}, which stands above it"


def test_every_core_module_has_its_layer():
    names = {path.name.removesuffix(".py") for path in CORE.iterdir() if path.name not in ("data", "__pycache__")}
    known = set().union(*LAYERS) | {"__init__", "__main__", "builtin", "py.typed"}
    assert names <= known


@pytest.mark.parametrize("package", PLUGINS, ids=lambda path: path.name)
def test_plugins_use_only_the_public_surface(package):
    allowed_shared = SHARED if package.parent.parent.parent.name == "frameworks" else set()
    for path in package.rglob("*.py"):
        for module in imports(path, lazy=True):
            top = module.split(".")[0]
            if top == "llmperf":
                public = any(module == name or module.startswith(f"{name}.") for name in PUBLIC - {"llmperf"})
                assert module == "llmperf" or public, f"{path.relative_to(ROOT)} imports {module}, which is not public"
            elif top.startswith("llmperf_"):
                assert top == package.name or top in allowed_shared, f"{path.relative_to(ROOT)} imports {module}"


@pytest.mark.parametrize("package", PLUGINS, ids=lambda path: path.name)
def test_plugin_modules_import_nothing_heavy(package):
    light = {"llmperf", package.name}
    for module in imports(package / "plugin.py", lazy=False):
        top = module.split(".")[0]
        assert top in light or top in {"__future__", "typing", "collections", "pathlib", "os", "sys", "functools"}, (
            module
        )
