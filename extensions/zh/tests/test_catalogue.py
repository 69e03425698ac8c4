"""Every text that the project's packages can show in Chinese has a translation with the same values."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from llmperf_zh.plugin import llmperf_translations

ROOT = Path(__file__).parents[3]
[CHINESE] = llmperf_translations("zh")
FUNCTIONS = ("Text", "word", "sentence", "labelled", "Row", "Section", "Column")
"""Functions whose first argument (of `labelled` the second), `label` or `title` is a text that is translated."""
SOURCES = [
    path
    for folder in ("core", "testing", "vendors/*", "frameworks/*", "launchers/*", "extensions/*")
    for path in sorted(ROOT.glob(f"{folder}/src/**/*.py"))
]


def texts(source: str) -> Iterator[str]:
    """The texts and templates that a module shows in the language of a reader."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", None)
            first = node.args[1:2] if name == "labelled" else node.args[:1]
            shown = [*first, *(each.value for each in node.keywords if each.arg in ("label", "title"))]
            for text in shown if name in FUNCTIONS else ():
                chosen = (text.body, text.orelse) if isinstance(text, ast.IfExp) else (text,)
                yield from (one.value for one in chosen if isinstance(one, ast.Constant) and isinstance(one.value, str))


def templates(source: str) -> Iterator[str]:
    """The texts with `{}` in a module that makes a `Text`, also those that a variable holds."""
    constants = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    held = [text for text in constants if isinstance(text, str) and re.search(r"\w.*{[:}]", text)]
    yield from (text for text in held if "Text(" in source and not re.search(r"[`\n\\]", text))  # no code, no patterns


def values(template: str) -> Counter[tuple[str, str, str]]:
    """The values of a template, each with its conversion and format; the places of `{}` by number."""
    parts = [part for part in Formatter().parse(template) if part[1] is not None]
    return Counter((name or str(place), form or "", how or "") for place, (_, name, form, how) in enumerate(parts))


def test_texts_are_found_where_they_are_made():
    source = 'word("device", language), Text("{} of {}", 1, Text("steps" if many else "step")), Row(label="rank")'
    assert list(texts(source)) == ["device", "{} of {}", "rank", "steps", "step"]
    assert list(templates('template = "of {} steps"\nText(template, 2)')) == ["of {} steps"]


@pytest.mark.parametrize("path", [path for path in SOURCES if any(map(path.read_text().__contains__, FUNCTIONS))],
                         ids=lambda path: "/".join(path.parts[-3:]))  # fmt: skip
def test_every_text_has_a_translation(path):
    source = path.read_text()
    missing = [text for text in (*texts(source), *templates(source)) if text.strip() and text not in CHINESE]
    assert not missing, "add them to extensions/zh/src/llmperf_zh/zh.po"


def test_translations_keep_the_values_and_their_formats():
    for english, chinese in CHINESE.items():
        assert (values(chinese), "{}" in chinese) == (values(english), False), english


def test_other_languages_are_left_to_others():
    assert llmperf_translations("de") == []
