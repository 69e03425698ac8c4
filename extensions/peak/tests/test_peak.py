"""`llmperf peak`: what ranks time becomes rates of a device; wrong outputs are left out, failing ranks are named."""

import datetime
import json
from dataclasses import replace
from types import SimpleNamespace

import llmperf_schemas
import pytest
from llmperf import convert, decode, read_bytes
from llmperf.cli.main import call
from llmperf.errors import RunFailed
from llmperf.plugins.loading import load_for
from llmperf.running.launched import Task
from llmperf.types import DeviceRates, OperationToTime
from llmperf_peak import kept_rates
from llmperf_peak.plugin import llmperf_measured_rates
from llmperf_peak.rank import PeakTask, flops
from llmperf_peak.rates import measured_rates

TODAY = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
RATES = convert(llmperf_schemas.example("plan")["rates"] | {"device_model": "Stub S1", "date": TODAY}, DeviceRates, "")


@pytest.fixture
def plan(stub_plan, monkeypatch, tmp_path):
    """A function that makes a plan of two ranks, with a cache of its own."""
    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path / "cache"))
    infos = load_for("stub", "stub").infos()
    return lambda **options: replace(stub_plan(ranks=2, **options), plugins=infos, created=TODAY)


def measured(plan, show=lambda timed: None):
    plugins, here = load_for("stub", "stub"), SimpleNamespace(launcher=None)
    planned = SimpleNamespace(plan=plan, plugins=plugins, machine=here, answers=plugins.answers)
    task = PeakTask(model=plan.spec.model, dtypes=("fp32", "fp16"), rank_memory_bytes=2**30, seconds=0.01)
    return measured_rates(Task(planned, lambda line: None), task, show)


@pytest.mark.slow
def test_rates_are_those_of_the_whole_device(plan, monkeypatch):
    monkeypatch.setattr("llmperf_peak.rates.OTHER_CPU_SHARE", 1.0)
    shown, made = [], plan()
    outcome = measured(made, shown.append)
    rates = outcome.rates
    assert set(rates.matmul_flops_per_second) == {"fp32"}  # the stub has no fp16
    assert 0 < rates.matmul_flops_per_second["fp32"] <= 2 * 2 * 2048**3 / 2e-3
    assert 0 < rates.memory_bytes_per_second <= 2 * 2 * 2**26 / 1e-3
    assert 0 < rates.memory_read_bytes_per_second <= 2 * 2**26 / 5e-4
    assert rates.launch_seconds >= 1e-5
    (link,) = rates.links
    assert link.bytes_per_second == max(rate.bus_bytes_per_second for rate in rates.collectives)
    assert rates.conditions["stub"] == "1.0"
    assert [timed.operation.kind for timed in shown][:2] == ["launch", "copy"]
    packages = decode(read_bytes(outcome.kept), kept_rates.KeptRates, "kept").machine
    assert "numpy" in packages
    assert list(llmperf_measured_rates(made, packages)) == [rates]


@pytest.mark.slow
def test_figures_of_wrong_outputs_and_of_failed_ranks_are_not_used(plan):
    outcome = measured(plan(wrong="all_reduce"))
    assert outcome.rates.links == ()
    assert outcome.wrong[0] == "all_reduce fp32 1024: expected 1, found 2"
    assert (outcome.kept, outcome.not_kept) == (None, "an output was wrong")
    for fault, message in (
        ({"wrong": "matmul"}, "no matrix product with"),
        ({"raises": "copy"}, "rank 1 exception: no"),
    ):
        with pytest.raises(RunFailed, match=message):
            measured(plan(**fault))


@pytest.mark.slow
def test_the_command_measures_the_devices_of_a_vendor(plan, tmp_path, capsys):
    rates = str(tmp_path / "rates.json")
    assert call(["peak", "--vendor", "stub", "--framework", "stub", "--seconds", "0.01", "--out", rates]) == 0
    assert "matrix products: fp32" in capsys.readouterr().out
    assert decode(read_bytes(tmp_path / "rates.json"), DeviceRates, "rates").basis == "measured"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dtype", "fp8"], "--dtype: unknown precision of stub 'fp8'"),
        (["--model", "llama2_7"], "--model: unknown model 'llama2_7'"),
        (["--out", "absent/rates.json"], "absent/rates.json: cannot write: no folder absent"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_before_anything_starts(plan, words, message, ran):
    assert message in ran(2, "peak", "--vendor", "stub", "--framework", "stub", *words).err


def test_kept_rates_are_used_again(plan):
    probe = plan().probe
    kept_rates.keep(probe, {"stub": "1.0"}, RATES)
    assert kept_rates.kept_rates(probe, {"stub": "1.0", "other": "2"}) == RATES
    assert kept_rates.kept_rates(replace(probe, simulated=True), {}) is None


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("machine", {"driver": "535"}, "driver was 535, is 1.2"),
        ("machine", {"stub": "0.9", "elsewhere": "3"}, "stub was 0.9, is 1.0"),
        ("date", "2020-01-01", "they are of 2020-01-01"),
        ("matmul_flops_per_second", -1, "not used"),
    ],
)
def test_rates_that_were_kept_under_other_conditions_are_not_used(plan, name, value, reason):
    made = plan()
    path = kept_rates.keep(made.probe, {"stub": "1.0"}, RATES)
    kept = json.loads(path.read_text())
    (kept["rates"] if name in kept["rates"] else kept)[name] = value
    path.write_text(json.dumps(kept))
    (note,) = llmperf_measured_rates(made, {"stub": "1.0"})
    assert reason in note


def test_attention_counts_the_unmasked_half():
    operation = OperationToTime(kind="attention", dtype="bf16", shape=(1, 1, 16, 8))
    assert flops(operation) == 3.5 * 2 * 2 * 16 * 16 * 8 / 2
