"""`llmperf peak`: what ranks time becomes rates of a device; wrong outputs are left out, failing ranks are named."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest
from llmperf.errors import RunFailed, UserError
from llmperf.files import json_files
from llmperf.limits.task import TASK, LimitsTask
from llmperf.planning import measured_rates
from llmperf.plugins.loading import load_for
from llmperf.results.build import build_result
from llmperf.running.launched import run_plan
from llmperf.running.peak import measure_limits
from llmperf.types import DeviceRates

RATES = DeviceRates(
    device_model="Stub S1",
    basis="measured",
    matmul_flops_per_second={"fp32": 1e12},
    attention_flops_per_second={},
    memory_bytes_per_second=1e11,
    launch_seconds=1e-6,
    memory_bytes=None,
    source="a test",
    date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
)


@pytest.fixture
def limits_plan(stub_plan, monkeypatch, tmp_path):
    """A function that makes a plan of two ranks that time short operations, with a cache of its own."""
    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path / "cache"))

    def made(**options):
        plan = stub_plan(ranks=2, **options)
        task = LimitsTask(model=plan.spec.model, dtypes=("fp32", "fp16"), rank_memory_bytes=2**30, seconds=0.01)
        files = {**plan.worker.files, TASK: json_files.encode_pretty(task).decode()}
        return replace(plan, purpose="limits", worker=replace(plan.worker, files=files))

    return made


def measured(plan, shown=None):
    show = (lambda record: None) if shown is None else shown.append
    return measure_limits(plan, load_for("stub", "stub"), {"stub": "1.0"}, show, lambda line: None)


@pytest.mark.slow
def test_rates_are_those_of_the_whole_device(limits_plan, monkeypatch):
    monkeypatch.setattr("llmperf.running.peak._disturbance", lambda records: None)
    shown = []
    plan = limits_plan()
    result = measured(plan, shown)
    rates = result.rates
    assert (rates.basis, rates.device_model) == ("measured", "Stub S1")
    assert set(rates.matmul_flops_per_second) == {"fp32"}  # the stub has no fp16
    two_ranks = 2 * 2 * 2048**3 / 2e-3
    assert 0 < rates.matmul_flops_per_second["fp32"] <= two_ranks
    assert 0 < rates.memory_bytes_per_second <= 2 * 2 * 2**26 / 1e-3
    assert 0 < rates.memory_read_bytes_per_second <= 2 * 2**26 / 5e-4
    assert rates.launch_seconds >= 1e-5
    (link,) = rates.links
    assert link.bytes_per_second == max(rate.bus_bytes_per_second for rate in rates.collectives)
    assert rates.conditions["stub"] == "1.0"
    assert [record.timed.operation.kind for record in shown if record.timed][:2] == ["launch", "copy"]


@pytest.mark.slow
def test_an_operation_with_a_wrong_output_is_named_and_not_used(limits_plan):
    result = measured(limits_plan(wrong="all_reduce"))
    assert result.rates.links == ()
    assert result.wrong[0] == "all_reduce fp32 1024: expected 1, found 2"
    assert (result.kept, result.not_kept) == (None, "an output was wrong")


@pytest.mark.slow
def test_without_a_right_product_there_are_no_rates(limits_plan):
    with pytest.raises(RunFailed, match="no matrix product with the right output"):
        measured(limits_plan(wrong="matmul"))


@pytest.mark.slow
def test_a_rank_that_fails_is_named(limits_plan):
    with pytest.raises(RunFailed, match="rank 1 exception: no room for copy"):
        measured(limits_plan(raises="copy"))


def test_timed_operations_never_become_a_result(limits_plan, tmp_path):
    plan = limits_plan()
    with pytest.raises(UserError, match="expected 'run', found 'limits'"):
        run_plan(plan, tmp_path / "run", load_for("stub", "stub"))
    run = tmp_path / "copied"
    (run / "records").mkdir(parents=True)
    json_files.save(run / "plan.json", plan)
    with pytest.raises(UserError, match="not a measured run"):
        build_result(run)


def test_a_measurement_on_this_machine_is_used_again(limits_plan):
    plan = limits_plan()
    measured_rates.keep(plan.probe, {"stub": "1.0"}, RATES)
    assert measured_rates.measured_here(plan.probe, {"stub": "1.0", "other": "2"}) == (RATES, None)
    assert measured_rates.measured_here(replace(plan.probe, simulated=True), {}) == (None, None)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"driver": "535"}, "driver was 535, is 1.2"),
        ({"host": "other"}, "host was other"),
        ({"packages": {"stub": "0.9", "elsewhere": "3"}}, "stub was 0.9, is 1.0"),
        ({"date": "2020-01-01"}, "they are of 2020-01-01"),
        ({"date": "soon"}, "Invalid isoformat"),
        ({"device_model": "Stub S2"}, "of another device"),
    ],
)
def test_a_measurement_under_other_conditions_is_not_used(limits_plan, change, reason):
    plan = limits_plan()
    path = measured_rates.keep(plan.probe, {"stub": "1.0"}, RATES)
    kept = json_files.load(path, measured_rates.MeasuredHere)
    in_rates = {name: value for name, value in change.items() if name in ("date", "device_model")}
    others = {name: value for name, value in change.items() if name not in in_rates}
    json_files.save(path, replace(kept, rates=replace(kept.rates, **in_rates), **others))
    rates, problem = measured_rates.measured_here(plan.probe, {"stub": "1.0"})
    assert rates is None
    assert reason in problem


def test_a_damaged_file_is_not_used(limits_plan):
    plan = limits_plan()
    path = measured_rates._path(plan.probe)
    path.parent.mkdir(parents=True)
    path.write_text('{"rates": {"matmul_flops_per_second": -1}}')
    assert measured_rates.measured_here(plan.probe, {})[0] is None
