"""Problems carry codes that programs can rely on."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import llmperf
import pytest
from llmperf.types.plan_checks import PROBLEM_CODES, Problem

ROOT = Path(llmperf.__file__).parents[3]


def codes_in(folder: Path) -> set[str]:
    """Every literal `code=` of a `Problem(...)` in the Python files of a folder."""
    return {
        str(keyword.value.value)
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem"
        for keyword in node.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }


@pytest.mark.slow
def test_the_list_of_core_codes_is_complete():
    of_plugins = Problem(where="tuning", message="a plugin that gives no code").code
    of_checks = codes_in(ROOT / "extensions" / "estimate" / "src")  # the check of plans that the core once made itself
    assert codes_in(ROOT / "core" / "src") | of_checks | {of_plugins} == set(PROBLEM_CODES)


def test_the_codes_of_plugins_have_the_name_of_the_plugin_in_front():
    codes = codes_in(ROOT / "frameworks")
    assert codes
    for code in codes:
        assert re.fullmatch(r"[a-z0-9_]+\.[a-z0-9_]+", code), code


def test_codes_are_shown_in_plans_and_refusals(ran):
    arguments = ["default", "--vendor", "cpu", "--devices", "1", "--set", "seq_len=999999"]
    problems = json.loads(ran(2, "plan", *arguments, "--json").out)["problems"]
    assert "sequence_too_long" in {problem["code"] for problem in problems}
    assert "[sequence_too_long]" in ran(2, "plan", *arguments).out
    assert "[sequence_too_long]" in ran(2, "run", *arguments).err
