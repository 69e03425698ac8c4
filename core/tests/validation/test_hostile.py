"""Whatever is in a document, the validator has something to say and never falls over."""

import copy
import json
import time

import llmperf_schemas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.files.user_files import parse_value, read_toml
from llmperf.types import Result
from llmperf.validation.check import findings, validate_path

QUICK = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
NAMES = {"result": "result.json", "plan": "plan.json", "record": "r.jsonl"}


def leaves(value, path=()):
    """The path of every scalar in a document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path


def at(document, path):
    for part in path:
        document = document[part]
    return document


def changed(document, path, value):
    document = copy.deepcopy(document)
    at(document, path[:-1])[path[-1]] = value
    return document


@QUICK
@given(data=st.binary(max_size=200), name=st.sampled_from([*NAMES.values(), "cases/c.toml", "models/m.toml"]))
def test_any_bytes(tmp_path, data, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    for file in validate_path(path):
        assert name == "r.jsonl" or file.failed


@pytest.mark.slow
@QUICK
@given(document=ANYTHING, name=st.sampled_from(list(NAMES.values())))
def test_any_json(tmp_path, document, name):
    path = tmp_path / name
    path.write_text(json.dumps(document) + "\n")
    assert any(file.failed for file in validate_path(path))


NUMBERS = st.integers(1, 2**53 - 1) | st.floats(0, 1e308) | st.sampled_from([1, 2**53 - 1, 0.0, 5e-324, 1e308])


@pytest.mark.slow
@settings(QUICK, max_examples=150)
@given(data=st.data())
def test_any_number_in_the_place_of_any_number(data):
    document = llmperf_schemas.example("result")
    paths = [path for path in leaves(document) if isinstance(at(document, path), (int, float))]
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from(paths))
        number = data.draw(NUMBERS)
        whole = isinstance(at(document, path), int) and not isinstance(at(document, path), bool)
        document = changed(document, path, int(min(number, 2**53 - 1)) or 1 if whole else float(number))
    try:
        result = json_files.convert(document, Result, "result")
    except Exception:
        return  # a truth value or a choice was replaced: that is the schema's to say
    assert all("\n" not in finding.message for finding in findings("result", result))


EXAMPLE = llmperf_schemas.example("result")
UNDETERMINED = (
    *("p5", "p95", "median", "mean", "power_watts", "utilisation_percent", "grad_norm", "peak_bytes"),
    *("other_cpu_share", "other_cpu_share_before"),
)
"""Figures that nothing else in a result fixes; beside its records these are found too."""
FREE_PARTS = (
    "framework",
    "hardware",
    "software",
    "plugins",
    "findings",
    "notes",
    "files",
    "finished",
    "created",
    "conditions",
)


def determined():
    """Every figure of the example that the rest of the result fixes."""
    for path in leaves(EXAMPLE):
        value = at(EXAMPLE, path)
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and value
        inner_loss = path[0] == "loss_curve" and (path[1] not in (0, len(EXAMPLE["loss_curve"]) - 1))
        memory = path[-1] in ("device_memory_used_bytes", "device_memory_total_bytes", "known_entropy")
        free = path[0] in FREE_PARTS or path[-1] in UNDETERMINED or memory or inner_loss
        if number and not free and path[0] not in ("fix_hp",):
            yield path


@pytest.mark.parametrize("factor", [2, 0.5])
def test_one_figure_changed_is_found(factor):
    for path in determined():
        value = at(EXAMPLE, path)
        new = value * factor if isinstance(value, float) else int(value * factor) + (factor < 1 and value == 1)
        if new == value:
            new = value + 1
        try:
            result = json_files.convert(changed(EXAMPLE, path, new), Result, "result")
        except Exception:
            continue  # out of the schema's choices
        assert findings("result", result), path


@pytest.mark.slow
@QUICK
@given(data=st.data(), factor=st.floats(0.1, 10).filter(lambda factor: abs(factor - 1) > 1e-3))
def test_in_its_run_folder_any_figure_changed_is_found(run_folder, data, factor):
    path = run_folder / "result.json"
    before = path.read_text()
    document = json.loads(before)
    figures = [
        one for one in leaves(document)
        if isinstance(at(document, one), float) and at(document, one) and one[0] != "findings"
    ]  # fmt: skip
    figure = data.draw(st.sampled_from(figures))
    path.write_text(json.dumps(changed(document, figure, at(document, figure) * factor)))
    try:
        assert any(file.failed for file in validate_path(path)), figure
    finally:
        path.write_text(before)


@pytest.mark.slow
def test_a_document_of_a_million_mistakes_is_judged_soon(tmp_path, saved):
    document = copy.deepcopy(EXAMPLE)
    document["mfu"] = EXAMPLE["mfu"] * 4000
    document["fix_hp"] = [{"path": "tuning.none", "case_value": 1, "value": 2, "origin": "x"}] * 20000
    path = saved(tmp_path / "result.json", document)
    begin = time.monotonic()
    (file,) = validate_path(path)
    assert time.monotonic() - begin < 100
    assert file.failed
    assert len(file.findings) < 100


PARTS = ".".join("a" * 500)
LONG_KEYS = {
    "a key": f"{PARTS} = 1",
    "a table": f"[{PARTS}]",
    "an array of tables": f"[[{PARTS}]]",
    "an inline table": f"x = {{{PARTS} = 1}}",
    "quoted parts": ".".join(['"a = 1"'] * 500) + " = 1",
    "literal parts": " . ".join(["'a.b'"] * 500) + " = 1",
    "after a multi-line string": f'x = {{y = """\n\' "x" """"", {PARTS} = 1}}',
    "after a literal multi-line string": f"x = {{y = '''\n\" ''''', {PARTS} = 1}}",
}


@pytest.mark.parametrize("text", LONG_KEYS.values(), ids=LONG_KEYS)
def test_a_key_of_many_parts_is_refused(tmp_path, text):
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"expected keys of at most 64 parts, found more \(at line [12]\)"):
        read_toml(path)


def test_long_keys_are_refused_at_once(tmp_path):
    path = tmp_path / "a.toml"
    begin = time.monotonic()
    for text in (".".join("a" * 500_000) + "=1", "a" * 1_000_000, "x = " + "." * 1_000_000):
        path.write_text(text)
        with pytest.raises(UserError):
            read_toml(path)
    assert time.monotonic() - begin < 60


def test_dots_in_values_and_comments_are_no_keys(tmp_path):
    path = tmp_path / "a.toml"
    numbers = ", ".join(["0.5"] * 200)
    path.write_text(f'# {PARTS}\nx = [{numbers}]\ny = "{PARTS}"\nz = """\n{PARTS}"""\na.b.c = 1\n')
    table = read_toml(path)
    assert len(table["x"]) == 200
    assert (table["y"], table["z"], table["a"]) == (PARTS, PARTS, {"b": {"c": 1}})


def test_a_setting_with_a_long_key_is_text():
    assert parse_value(f"{{{PARTS} = 1}}") == f"{{{PARTS} = 1}}"
    assert parse_value("{a.b = 1}") == {"a": {"b": 1}}
