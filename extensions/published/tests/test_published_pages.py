"""Every rule over published documents has a page, and the page is right: its wrong example breaks the rule."""

import json
import re
from pathlib import Path

import llmperf_published
import pytest
from llmperf.files import json_files
from llmperf.files.user_files import read_toml
from llmperf.validation.catalogue import open_catalogue
from llmperf.validation.check import findings
from llmperf_published.types.document import Published
from published_tables import read

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "rules" / "example.md"
OWNED = {owned.rule.code: owned for owned in open_catalogue().all_rules() if "published" in owned.rule.kinds}
RULES = {code: owned.rule for code, owned in OWNED.items()}
PAGES = {code: owned.page() for code, owned in OWNED.items()}


def put(document, values):
    """A document with values at JSON pointers."""
    for pointer, value in values.items():
        *folders, leaf = pointer[1:].split("/")
        target = document
        for folder in folders:
            target = target[int(folder)] if isinstance(target, list) else target[folder]
        target[int(leaf) if isinstance(target, list) else leaf] = value
    return document


def judged_document(values):
    """The example document with other text in places, and what is imported of it with values at JSON pointers."""
    text = DOCUMENT.read_text()
    for piece, instead in values.items():
        if not piece.startswith("/"):
            assert text.count(piece) == 1, piece
            text = text.replace(piece, instead)
    imported = json.loads(json_files.encode(read(text)))
    put(imported, {pointer: value for pointer, value in values.items() if pointer.startswith("/")})
    return findings("published", json_files.convert(imported, Published, "published"))


def blocks(text):
    return re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL)


def test_every_rule_has_a_page_and_every_page_a_rule():
    assert set(read_toml(Path(llmperf_published.__file__).parent / "data" / "rules.toml")) == set(RULES)


@pytest.mark.parametrize("code", RULES)
def test_page_shows_what_breaks_the_rule(code):
    (_, wrong), (_, line), (_, right) = blocks(PAGES[code])
    told = [one for one in judged_document(json.loads(wrong)) if one.code == code]
    assert line.strip() in [f"{one.path}: {one.code} {one.severity} {one.message}" for one in told]
    assert code not in [one.code for one in judged_document(json.loads(right))]


def test_the_example_document_breaks_no_rule():
    assert judged_document({}) == ()


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-inf", "+Infinity", "∞", "**NaN** (diverged)"])
def test_a_published_loss_that_is_no_number_is_an_error(text):
    told = [(one.code, one.severity) for one in judged_document({"| 4.65 |": f"| {text} |"})]
    assert ("LP508", "error") in told


def test_a_published_cell_of_words_is_no_error():
    told = {(one.code, one.severity) for one in judged_document({"| 4.65 |": "| nancy |"})}
    assert told == {("LP214", "warning"), ("LP617", "note")}
