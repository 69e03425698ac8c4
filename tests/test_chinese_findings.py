"""Every text in a rule of the project is in a Chinese template: a new one fails here until it has one.

Whether whole messages become Chinese is checked in every test that makes a finding: `messages_are_chinese` in
`conftest.py`.
"""

import ast
import re
from pathlib import Path

import pytest
from llmperf.reporting.finding_texts import message_templates

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core" / "src" / "llmperf"
RULES = sorted(
    path
    for folder in ("core", "vendors/*", "frameworks/*", "launchers/*", "extensions/*")
    for path in ROOT.glob(f"{folder}/src/**/*.py")
    if "\n@rule(" in path.read_text() and path.stem != "first_losses"  # which has errors of trainers, too
)
"""Modules of rules that check a document."""
READING = [CORE / "validation" / f"{name}.py" for name in ("run_folder", "run_records", "schema")]
"""Modules of rules that are applied while files are read. Levels of verification, submissions and the readers of files
also give texts of other programs, and are left to the tests that make findings."""
NO_MESSAGES = {"batch defaults"}
"""Texts in rules that are not shown."""
BETWEEN = re.compile(r"[,;:()]|\b(?:expected|found)\b|\S*\d\S*|{}")
"""What divides a text into phrases."""
WORDS = re.compile(r"(?<![\w.-])[a-z]{2,} [a-z]{2,}")


def texts(path):
    """Each piece of text in the functions of a module that can be one of a message, without values."""
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            docstring = ast.get_docstring(function, clean=False)
            for node in (node for statement in function.body for node in ast.walk(statement)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != docstring:
                    for text in BETWEEN.split(node.value):
                        if WORDS.search(text) and text not in NO_MESSAGES:
                            yield text.strip()


@pytest.mark.parametrize("path", [*RULES, *READING], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_text_of_a_rule_is_in_a_chinese_template(path):
    templates = "\n".join(message_templates())
    missing = [text for text in texts(path) if text not in templates]
    assert not missing, "add templates to data/findings.zh.toml of the package"
