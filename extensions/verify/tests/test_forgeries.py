"""Forgeries of a run folder or a result, each named for what is done, and the rule that finds it."""

import json

import llmperf_schemas
import pytest
from llmperf.files import json_files
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.types import Plan, Result
from llmperf.validation.check import findings, validate_path


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


LOWERED = {"/metrics/energy_joules": 6.144e-6, "/metrics/joules_per_token": 1e-9, "/metrics/tokens_per_joule": 1e9}


@pytest.mark.parametrize(
    ("kind", "code", "values"),
    [
        ("result", "LP208", {"/metrics/joules_per_token": 1e-9}),
        ("result", "LP325", LOWERED),
        ("result", "LP668", {"/hardware/host_cpu": "Example \x1b[31mCPU"}),
        ("result", "LP668", {"/hardware/host_cpu": "Example\x07"}),
        ("result", "LP668", {"/notes": ["the \x9b2J screen"]}),
        ("plan", "LP316", {"/flops/counted_by": "zero"}),
        ("plan", "LP316", {"/flops/counted_by": "../../x"}),
        ("plan", "LP317", {"/flops/counted_by": "acme", "/flops/per_token/0/flops": 1e9}),
        ("plan", "LP323", {"/spec/model/nominal_parameters": 7000000000}),
        ("plan", "LP323", {"/spec/model/nominal_active_parameters": 1}),
        ("plan", "LP318", {"/peak/device_model": "Example CPU, 64 cores"}),
        ("plan", "LP318", {"/peak/date": "2026-13-01"}),
        ("plan", "LP318", {"/peak/date": "soon"}),
        ("plan", "LP652", {"/plugins": []}),
        ("plan", "LP652", {"/plugins/1/role": "extension"}),
        ("plan", "LP652", {"/plugins/0/name": "../../x"}),
        ("plan", "LP652", {"/plugins/2/name": "c\x1b[2Jpu"}),
        ("plan", "LP650", {"/worker/problems": [{"code": "none_of_them", "where": "tuning", "message": "no"}]}),
        ("plan", "LP308", {"/device_share": 0.3}),
        ("plan", "LP308", {"/device_share": 1.0}),
        ("plan", "LP308", {"/vendor": "nvidia", "/probe/devices/0/model": "NVIDIA A100-SXM4-40GB"}),
        ("plan", "LP607", {"/spec/model/layers": 8}),
    ],
)
def test_forgery_h_figures_and_texts_of_a_document_alone(kind, code, values):
    document = llmperf_schemas.example(kind)
    for pointer, value in values.items():
        *folders, leaf = pointer[1:].split("/")
        table = document
        for folder in folders:
            table = table[int(folder) if isinstance(table, list) else folder]
        table[leaf] = value
    type_ = {"result": Result, "plan": Plan}[kind]
    assert code in {finding.code for finding in findings(kind, json_files.convert(document, type_, kind))}
