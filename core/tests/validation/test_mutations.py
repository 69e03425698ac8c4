"""Documents with values replaced, or pieces of text cut out, get findings or one clear error."""

import json
import os
from pathlib import Path

import llmperf_schemas
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from llmperf.files import json_files
from llmperf.files.text import printable
from llmperf.validation.check import Validator

EXTENSION = Path(__file__).parents[3] / "extensions" / "published"
PUBLISHED = sorted(EXTENSION.glob("src/*/data/*/published.json"))
TEXTS = sorted(EXTENSION.glob("tests/published_documents/*.md"))
DOCUMENTS = [
    ("result.json", llmperf_schemas.example("result")),
    ("plan.json", llmperf_schemas.example("plan")),
    ("r.jsonl", llmperf_schemas.example("record")),
    *(("published.json", json.loads(path.read_text())) for path in PUBLISHED),
]
INSTEAD = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
    | st.sampled_from([-1, 0, 1, 2**53, 1e308, 5e-324, "/", "0", "\x1b[31m", "昆仑芯", "A100", [], {}])
)  # fmt: skip
PIECES = st.text(max_size=8) | st.sampled_from(["|", "*", "0", "/", "\n", "9" * 30])
EXAMPLES = 10_000 if os.environ.get("LLMPERF_ALL_TESTS") else 600
MANY = settings(
    max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip


def places(value, path=()):
    """The path of everything in a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*path, key)
        yield from places(inner, (*path, key))


PLACES = [list(places(document)) for _, document in DOCUMENTS]


@st.composite
def mutated_json(draw):
    """A document with one to three values replaced or taken out."""
    number = draw(st.integers(0, len(DOCUMENTS) - 1))
    name, document = DOCUMENTS[number][0], json.loads(json.dumps(DOCUMENTS[number][1]))
    for _ in range(draw(st.integers(1, 3))):
        *folders, leaf = draw(st.sampled_from(PLACES[number]))
        try:
            inner = document
            for folder in folders:
                inner = inner[folder]
            if isinstance(inner, dict) and draw(st.booleans()) and draw(st.booleans()):
                del inner[leaf]
            else:
                inner[leaf] = draw(INSTEAD)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has taken the place away
    return name, json.dumps(document)


@st.composite
def mutated_text(draw):
    """A published document with a piece replaced, doubled or cut out."""
    text = draw(st.sampled_from(TEXTS)).read_text()
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = begin + draw(st.integers(0, 40))
        text = text[:begin] + draw(PIECES) + text[end:]
    return "README.md", text


@pytest.mark.slow
@pytest.mark.timeout(1200)
@MANY
@given(mutated_json() | mutated_text())
def test_a_mutated_document_gets_findings_or_a_clear_error(tmp_path, document):
    name, text = document
    (tmp_path / name).write_text(text, encoding="utf-8", errors="replace")
    (file,) = Validator().validated(tmp_path / name)
    for one in file.findings:
        assert one.code.startswith(("LP", "CPU"))
        assert "\n" not in one.message
        assert printable(one.message).isprintable()
        json_files.encode(one)
