"""The place of a run on the roofline: by measured rates, by assumed ones, and without any."""

import json
from dataclasses import replace
from importlib.metadata import version

import llmperf_schemas
import pytest
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.plugins.discovery import discover
from llmperf.plugins.loading import plugins_for
from llmperf.results.run_result import result_of
from llmperf.runfolder.contents import read_run
from llmperf.types import Plan, Result
from llmperf.validation.catalogue import Catalogue, forget_catalogues
from llmperf.validation.check import findings
from llmperf_peak.roofline import roofline


@pytest.fixture
def plan():
    return json_files.convert(llmperf_schemas.example("plan"), Plan, "plan")


def test_a_step_below_the_ridge_is_bound_by_memory(plan):
    slow_memory = replace(plan.rates, memory_bytes_per_second=1e9)
    line = roofline(replace(plan, rates=slow_memory), 0.5)
    assert line.bound == "memory"
    assert line.compute_flops_per_second == plan.rates.matmul_flops_per_second["fp32"] / 2  # two ranks share the device
    assert line.attainable_flops_per_second == pytest.approx(line.flops_per_byte * 0.5e9)
    assert line.share_of_attainable == pytest.approx(line.flops_per_step / 0.5 / line.attainable_flops_per_second)


def test_intensity_is_known_without_rates_and_for_models_that_the_core_counts(plan):
    line = roofline(replace(plan, rates=None), None)
    assert line.flops_per_byte > 1
    assert (line.bound, line.ridge_flops_per_byte, line.achieved_flops_per_second) == (None, None, None)
    assert roofline(replace(plan, flops=replace(plan.flops, counted_by="mixture")), 0.5) is None


def test_assumed_rates_and_those_of_another_precision_give_no_measured_peak(plan, run_folder):
    assumed = replace(plan, rates=replace(plan.rates, basis="assumed"))
    other = replace(plan, rates=replace(plan.rates, matmul_flops_per_second={"bf16": 1e12}))
    assert (roofline(assumed, 0.5).rates_basis, roofline(other, 0.5).bound) == ("assumed", None)
    records = read_run(run_folder)
    for known in (assumed, other):
        assert result_of(replace(records, plan=replace(records.plan, rates=known.rates))).measured_peak is None


def test_recomputation_raises_the_intensity_that_is_computed(plan):
    again = replace(plan, spec=replace(plan.spec, tuning=replace(plan.spec.tuning, gradient_checkpointing=True)))
    assert roofline(again, 0.5).flops_per_step > 1.2 * roofline(plan, 0.5).flops_per_step


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("bound", "memory", "compute (intensity against ridge), found memory"),
        ("memory_bytes_per_second", 1e30, "at most 1e+15 bytes/s, which no device"),
        ("compute_flops_per_second", 1e30, "at most 1e+18 FLOP/s, which no device"),
        ("achieved_flops_per_second", 1e20, "at most 8e+10 (the peak)"),
    ],
)
def test_figures_that_do_not_follow_or_are_impossible_are_found(name, value, found):
    example = llmperf_schemas.example("result")
    example["sections"]["roofline"][name] = value
    listed = findings("result", json_files.convert(example, Result, "result"), Catalogue(plugins_for()))
    lines = [f"{one.path}: {one.message}" for one in listed if one.code == "LP320"]
    assert any(line.startswith(f"/sections/roofline/{name}: expected {found}") for line in lines)


@pytest.mark.parametrize("absent", ["llmperf-peak", "llmperf-estimate"])
def test_without_its_packages_a_roofline_is_kept_and_noted(absent, run_folder, capsys, monkeypatch):
    installed = [found for found in discover() if found.distribution != absent]
    for module in ("plugins.loading", "validation.plugin_data"):
        monkeypatch.setattr(f"llmperf.{module}.discover", lambda **_: installed)
    monkeypatch.setattr("llmperf.validation.rules.identity.version", lambda name: None if name == absent else "1.0")
    forget_catalogues()
    call(["validate", str(run_folder)])
    printed = capsys.readouterr().out.replace('"', "'")
    assert f"/sections/roofline: LP905 note expected '{absent}' to be installed" in printed
    assert "LP703" not in printed
    assert call(["report", str(run_folder)]) == 0
    monkeypatch.undo()
    forget_catalogues()


def test_a_section_that_was_taken_out_is_missed_and_a_failing_one_is_its_package_s_fault(
    run_folder, capsys, monkeypatch
):
    path, plan = run_folder / "result.json", run_folder / "plan.json"
    result, planned = json.loads(path.read_text()), json.loads(plan.read_text())
    peak = {"role": "extension", "name": "peak", "distribution": "llmperf-peak", "version": version("llmperf-peak")}
    plan.write_text(json.dumps(planned | {"plugins": [*planned["plugins"], {**planned["plugins"][0], **peak}]}))
    path.write_text(json.dumps(result | {"sections": {}}))
    assert call(["validate", str(path)]) == 1
    assert "/sections/roofline: LP703 error expected an object" in capsys.readouterr().out
    path.write_text(json.dumps(result))
    monkeypatch.setattr("llmperf_peak.roofline.roofline", None)
    assert call(["validate", str(path)]) == 2
    printed = capsys.readouterr().out
    assert "/sections/roofline: LP703" not in printed
    assert "/sections/roofline: LP901 warning not computed again: extension 'peak' (llmperf-peak): section" in printed
