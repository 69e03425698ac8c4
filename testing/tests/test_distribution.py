"""The kit as a distribution: what it imports from core beyond the public names, which may only become less."""

from __future__ import annotations

import ast
from pathlib import Path

import llmperf_testing

SOURCE = Path(llmperf_testing.__file__).parent
PUBLIC = {"llmperf", "llmperf.errors", "llmperf.hookspecs", "llmperf.types"}

MOST = 30
"""Private modules that are still imported; lower it when an import goes."""


def test_the_kit_imports_no_more_private_modules_of_core_than_before():
    modules: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "llmperf":
                modules.add(node.module)
            elif isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names if alias.name.split(".")[0] == "llmperf"}
    found = sorted({name for name in modules if name not in PUBLIC and not name.startswith("llmperf.types.")})
    assert len(found) <= MOST, found
