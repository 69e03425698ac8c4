"""Forgeries of a run folder or a result, each named for what is done, and the rule that finds it."""

import json
import os
from pathlib import Path

import llmperf_schemas
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from llmperf.files import json_files
from llmperf.files.text import printable
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.validation.check import Validator, validate_path


def edited(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def codes(path, severity="error"):
    return [one.code for file in validate_path(path) for one in file.findings if one.severity == severity]


def sealed(run):
    """The run folder after llmperf has computed its result again."""
    json_files.save(run / filenames.RESULT, build_result(run))
    return run


def lone_result(folder, **values):
    """A result.json alone, with values at paths."""
    document = llmperf_schemas.example("result")
    document["files"] = {}
    for path, value in values.items():
        *tables, key = path.split("__")
        inner = document
        for table in tables:
            inner = inner[table]
        inner[key] = value
    (folder / filenames.RESULT).write_text(json.dumps(document))
    return folder / filenames.RESULT


@pytest.mark.parametrize("confidence", ["datasheet", "low"])
def test_forgery_a_measured_peak_called_published(confidence, run_folder):
    """A fifth of the peak from an invented source: MFU is five times as high."""

    def lower(plan):
        plan["peak"]["flops_per_second"] /= 5
        plan["peak"] |= {"confidence": confidence, "source": "Example CPU datasheet, page 3"}

    edited(run_folder / filenames.PLAN, lower)
    assert "LP324" in codes(sealed(run_folder))


def test_forgery_a_gains_nothing_where_the_peak_was_measured_after_the_run(run_folder):
    def lower(plan):
        again = dict(plan["peak"])
        edited(run_folder / filenames.ENDING, lambda ending: ending.update(peak_again=again))
        plan["peak"]["flops_per_second"] /= 5
        plan["peak"]["confidence"] = "datasheet"

    before = json.loads((run_folder / filenames.RESULT).read_text())["mfu"][0]["value"]
    edited(run_folder / filenames.PLAN, lower)
    path = sealed(run_folder) / filenames.RESULT
    assert json.loads(path.read_text())["mfu"][0]["value"] == before

    def raised(result):
        for mfu in result["mfu"]:
            mfu |= {"peak_flops_per_second": mfu["peak_flops_per_second"] / 5, "value": mfu["value"] * 5}
            mfu["peak_confidence"] = "datasheet"

    edited(path, raised)
    assert "LP658" in codes(path)


@pytest.mark.parametrize(("role", "name"), [("core", "llmperf"), ("vendor", "llmperf_cpu")])
def test_forgery_f_versions_of_plugins_in_the_plan(role, name, run_folder):
    version = json.loads((run_folder / filenames.PLAN).read_text())["plugins"][0]["version"]
    for path in (run_folder / filenames.RECORDS).glob("rank-*"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            if row["kind"] == "rank":
                row["packages"][name] = version
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert codes(sealed(run_folder)) == []

    def other(plan):
        for plugin in plan["plugins"]:
            if plugin["role"] == role:
                plugin["version"] = "9.9.9"

    edited(run_folder / filenames.PLAN, other)
    assert codes(sealed(run_folder)) == ["LP667"]


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("metrics__joules_per_token", 1e-9, "LP208"),
        ("hardware__host_cpu", "Example \x1b[31mCPU", "LP668"),
        ("hardware__host_cpu", "Example\x07", "LP668"),
        ("notes", ["the \x9b2J screen"], "LP668"),
    ],
)
def test_forgery_h_figures_and_texts_of_a_lone_result(path, value, code, tmp_path):
    assert code in codes(lone_result(tmp_path, **{path: value}))


def test_forgery_h_all_energy_lowered_alike(tmp_path):
    energy = {"energy_joules": 1e-9 * 4608, "joules_per_token": 1e-9, "tokens_per_joule": 1e9}
    tokens = llmperf_schemas.example("result")["metrics"]["measured_tokens"]
    energy["energy_joules"] = 1e-9 * tokens
    path = lone_result(tmp_path, **{f"metrics__{name}": value for name, value in energy.items()})
    assert "LP325" in codes(path)


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
