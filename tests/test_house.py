"""Sizes of files and helpers, and names that core must not know."""

from __future__ import annotations

import ast
import io
import re
import statistics
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core" / "src" / "llmperf"

MAX_LINES = 350
MIN_MEDIAN_LINES = 140
"""Of the files of core, `__init__.py` and `__main__.py` left out."""
MAX_SMALL_HELPERS = 20
"""Private functions of at most three lines that are used once, over all of core."""

KNOWN_LONG = {"core/src/llmperf/hookspecs.py"}
"""Files over the limit: the contract is one file, in the order of a run, and nearly all of it is docstrings."""

BUDGETS = {  # lines of Python; a number only goes down
    "core": 24000,
    "schemas": 100,
    "testing": 4850,
    "vendors/ascend": 200,
    "vendors/cpu": 850,
    "vendors/kit": 1550,
    "vendors/kunlunxin": 300,
    "vendors/nvidia": 900,
    "vendors/rocm": 350,
    "frameworks/kit": 3350,
    "frameworks/lora": 1150,
    "frameworks/megatron_core": 850,
    "frameworks/megatron_deepspeed": 1850,
    "frameworks/paddle": 1950,
    "frameworks/pytorch": 2300,
    "frameworks/torchtitan": 750,
    "frameworks/transformers": 650,
    "frameworks/zero": 800,
    "launchers/inside": 1350,
    "launchers/kubernetes": 800,
    "launchers/ray": 700,
    "launchers/remote": 2650,
    "launchers/slurm": 800,
    "launchers/ssh": 450,
    "extensions/compare": 4050,
    "extensions/datasets": 500,
    "extensions/estimate": 4150,
    "extensions/flagperf": 850,
    "extensions/fuzz": 950,
    "extensions/html": 1850,
    "extensions/huggingface": 1000,
    "extensions/inspect": 950,
    "extensions/peak": 950,
    "extensions/published": 5900,
    "extensions/screening": 1450,
    "extensions/scripts": 400,
    "extensions/sweep": 2650,
    "extensions/trace": 1200,
    "extensions/tracking": 450,
    "extensions/verify": 5900,
    "extensions/watch": 2100,
    "extensions/zh": 50,
    "outside tests": 92400,
    "tests": 47200,
}
"""Of `src` in each distribution, of all files outside tests (also of benchmarks, documents, scripts), and of all tests.

Code that moves takes its lines along: the budget that it leaves falls by as much as the other one rises.
"""

BUDGET_STEP = 50
"""A budget is the size rounded up to this; two steps of room are one too many."""

VENDOR_AND_FRAMEWORK_NAMES = re.compile(
    r"nvidia|cuda|nccl|tensorrt|rocm|rccl|\bamd\b|ascend(?!ing)|\bnpu|hccl|kunlun|\bxpu|bkcl|xccl"
    r"|torch|deepspeed|megatron|paddle|gloo",
    re.IGNORECASE,
)
"""Names of chips and their tools, of tensor libraries and of frameworks."""

FILE_FORMATS = {"types/spec.py"}
"""Where `megatron` is the name of a file format for tokens, beside `npy` and `text`."""


def sources() -> list[Path]:
    """All Python source files of all distributions; no tests."""
    folders = [*ROOT.glob("*/src"), *ROOT.glob("*/*/src")]
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def core_modules() -> list[Path]:
    return [path for path in sorted(CORE.rglob("*.py")) if path.name not in ("__init__.py", "__main__.py")]


def test_no_file_is_too_long():
    long = {
        path.relative_to(ROOT).as_posix(): count
        for path in sources()
        if (count := len(path.read_text().splitlines())) > MAX_LINES
    }
    assert set(long) == KNOWN_LONG, long


def test_files_of_core_hold_whole_concepts():
    lengths = {path.relative_to(CORE).as_posix(): len(path.read_text().splitlines()) for path in core_modules()}
    median = statistics.median(lengths.values())
    shortest = sorted(lengths, key=lengths.__getitem__)[:30]
    assert median >= MIN_MEDIAN_LINES, f"median {median}; the shortest files: {shortest}"


def test_modules_of_core_have_distinct_names():
    names = Counter(path.name for path in core_modules())
    assert [name for name, count in names.items() if count > 1] == []


def test_sizes_only_go_down():
    sizes = {name: 0 for name in BUDGETS}
    for path in python_files():
        parts = path.relative_to(ROOT).parts
        is_test = "tests" in parts or path.name == "conftest.py"
        sizes["tests" if is_test else "outside tests"] += len(path.read_text().splitlines())
    for source in distributions():
        lines = sum(len(path.read_text().splitlines()) for path in source.rglob("*.py"))
        sizes[source.parent.relative_to(ROOT).as_posix()] = lines
    assert set(sizes) == set(BUDGETS), "each distribution has a budget"
    over = {name: f"{size} lines, budget {BUDGETS[name]}" for name, size in sizes.items() if size > BUDGETS[name]}
    assert not over, f"a budget of lines only goes down; remove as much as you add: {over}"
    loose = {name: size for name, size in sizes.items() if BUDGETS[name] - size >= 2 * BUDGET_STEP}
    assert not loose, f"lower these budgets to the next {BUDGET_STEP} above: {loose}"


def python_files() -> Iterator[Path]:
    """All Python files of the repository; no environments and no builds."""
    yield from ROOT.glob("*.py")
    for folder in ROOT.iterdir():
        if folder.is_dir() and not folder.name.startswith(".") and folder.name != "build":
            yield from folder.rglob("*.py")


def test_no_file_is_a_link():
    tree = subprocess.run(["git", "ls-files", "--stage"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert [line for line in tree.splitlines() if line.startswith("120000")] == []


def distributions() -> list[Path]:
    """Folders `src` of all distributions; examples are none."""
    roles = ("vendors", "frameworks", "launchers", "extensions")
    return [*ROOT.glob("*/src"), *(source for role in roles for source in ROOT.glob(f"{role}/*/src"))]


def test_few_private_helpers_are_short_and_used_once():
    helpers = [helper for path in core_modules() for helper in small_helpers(path)]
    assert len(helpers) < MAX_SMALL_HELPERS, "\n".join(helpers)


def small_helpers(path: Path) -> Iterator[str]:
    """Private functions of at most three lines with one use in their file; decorated functions do not count."""
    tree = ast.parse(path.read_text())
    uses = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and re.match(r"_(?!_)", node.name) and not node.decorator_list:
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines <= 3 and uses[node.name] == 1:
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


def test_core_names_no_vendor_and_no_framework():
    lines = {path.relative_to(CORE).as_posix(): named(path) for path in sorted(CORE.rglob("*.py"))}
    naming = [line for name in lines for line in lines[name]]
    assert not naming, "\n".join(naming)


def named(path: Path) -> list[str]:
    """Lines of code of a file, docstrings and comments left out, that name a vendor or a framework."""
    name = path.relative_to(CORE).as_posix()
    text = path.read_text()
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    comments = {
        token.start[0]: token.start[1]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        matches = set(VENDOR_AND_FRAMEWORK_NAMES.findall(line[: comments.get(number)]))
        if (
            number not in docstrings
            and matches
            and not (name in FILE_FORMATS and {m.lower() for m in matches} == {"megatron"})
        ):
            found.append(f"{name}:{number}: {line.strip()}")
    return found
