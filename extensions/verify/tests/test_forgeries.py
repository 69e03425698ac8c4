"""Forgeries of a run folder or a result, each named for what is done, and the rule that finds it."""

import json

import llmperf_schemas
import pytest
from llmperf.files import json_files
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.validation.check import validate_path


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
