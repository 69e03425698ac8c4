"""The kit as a distribution: what it imports from core beyond the public names, which may only become less."""

from __future__ import annotations

import ast
from pathlib import Path

import llmperf_testing

SOURCE = Path(llmperf_testing.__file__).parent
PUBLIC = {"llmperf", "llmperf.errors", "llmperf.hookspecs", "llmperf.types", "llmperf.vendorkit"}

PRIVATE = [
    "llmperf.cases.library",
    "llmperf.cases.readable",
    "llmperf.cases.settings",
    "llmperf.cli.output",
    "llmperf.files",
    "llmperf.files.json_files",
    "llmperf.launching.agent",
    "llmperf.launching.launchers",
    "llmperf.measuring.processes",
    "llmperf.measuring.rank_exit",
    "llmperf.measuring.sampler",
    "llmperf.measuring.script_output",
    "llmperf.measuring.worker",
    "llmperf.planning.build",
    "llmperf.planning.problems",
    "llmperf.planning.request",
    "llmperf.planning.states",
    "llmperf.planning.vendors",
    "llmperf.plugins.discovery",
    "llmperf.plugins.faults",
    "llmperf.plugins.loading",
    "llmperf.plugins.requirements",
    "llmperf.runfolder",
    "llmperf.runfolder.contents",
    "llmperf.runfolder.create",
    "llmperf.runfolder.reader",
    "llmperf.running.launched",
    "llmperf.validation.devices",
    "llmperf.validation.plugin_rules",
    "llmperf.vendorkit.peaks",
]
"""Modules that are still imported; remove a name when its last import goes."""


def private_imports() -> set[str]:
    """Modules of core that the kit imports although plugins may not rest on them."""
    modules: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "llmperf":
                modules.add(node.module)
            elif isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names if alias.name.split(".")[0] == "llmperf"}
    return {name for name in modules if name not in PUBLIC and not name.startswith("llmperf.types.")}


def test_the_kit_imports_no_more_of_cores_insides_than_before():
    assert sorted(private_imports()) == PRIVATE
