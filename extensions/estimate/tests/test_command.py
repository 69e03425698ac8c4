"""`llmperf estimate` as a user meets it, with a framework that brings its own trace."""

import json
import re
from pathlib import Path

import jsonschema
import llmperf_schemas
import pytest
from llmperf.cli.main import call
from llmperf.files import json_files

CASE = ("estimate", "default", "--vendor", "stub", "--framework", "stub", "--set", "precision=fp32")


@pytest.fixture
def estimate(stub_site, capfd):
    """Runs the command with further words: exit code, standard output and error."""

    def run(*words: str) -> tuple[int, str, str]:
        code = call([*CASE, *words])
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.mark.slow
def test_memory_time_and_where_it_goes_are_shown(estimate):
    code, out, err = estimate()
    assert code == 0, err
    assert "tracing rank 0 of 2 with stub" in err
    assert re.match(r"[\d,]+ token/p/s \+-\d+%, MFU [\d.]+%, fits: 0.3 of 0.5 GiB \(estimated\)\n", out)
    assert "of 0.5: fits" in out
    assert re.search(r"[\d,.]+ token/p/s \+-\d+%; MFU nominal", out)
    assert "all_reduce in backward over 2 ranks in a node" in out
    assert re.search(r"host waits +none", out)
    assert len(out.splitlines()) <= 28


def test_the_document_has_its_schema(estimate):
    code, out, err = estimate("--json", "--set", "framework.host_waits=true")
    document = json.loads(out)
    assert code == 0, err
    jsonschema.Draft202012Validator(llmperf_schemas.load("estimate")).validate(document)
    assert document["memory"][0]["method"] == "fake tensors"
    assert document["rates"]["basis"] == "assumed"
    assert document["host_waits"] == [
        {"where": "llmperf_stub/trainer.py:7", "operation": "Tensor.item", "per_step": 1.0}
    ]
    (used,) = document["tracing"]
    assert used["peak_resident_bytes"] > 2**20
    parts = document["time"]
    assert parts["seconds"] == pytest.approx(
        parts["compute_seconds"] + parts["communication_seconds"] + parts["bubble_seconds"] + parts["loss_seconds"]
    )


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("fails", "framework 'stub' (llmperf-stub): llmperf_trace_step raised RuntimeError: no tensors without data"),
        ("dies", "the tracer ended with exit status 7"),
        pytest.param("hangs", "the tracer gave no answer in 3 s", marks=pytest.mark.slow),
    ],
)
def test_a_trace_that_fails_is_replaced_by_formulas_and_the_reason_is_given(estimate, fault, reason):
    seconds = "3" if fault == "hangs" else "100"
    code, out, _ = estimate("--set", f"framework.trace={fault}", "--trace-timeout", seconds)
    assert code == 0
    assert f"estimated by formulas, not by a trace: {reason}" in out
    assert "traced by" in out
    assert "formulas, " in out


def test_without_rates_memory_is_estimated_and_time_is_unknown(estimate, monkeypatch):
    monkeypatch.setenv("LLMPERF_STUB_RATES", "none")
    code, out, _ = estimate("--json")
    document = json.loads(out)
    assert code == 0
    assert document["memory"][0]["peak_bytes"] == 2**28
    assert document["time"] is None
    assert document["tokens_per_second_per_device"] is None
    assert "stub gives no rates of 'Stub S1'; measure them there: llmperf peak" in document["time_problem"]


@pytest.fixture
def rates(tmp_path):
    """A function that writes the stub's rates with changes to a file; the options that use it."""
    from llmperf_stub.vendor import llmperf_device_rates

    def written(**changes: object) -> tuple[str, str]:
        json_files.save(tmp_path / "rates.json", json_files.builtins(llmperf_device_rates("Stub S1")) | changes)
        return "--rates", str(tmp_path / "rates.json")

    return written


def test_measured_rates_of_a_file_are_used(estimate, rates):
    slow = rates(basis="measured", memory_bytes_per_second=1e6, source="llmperf peak")
    code, out, _ = estimate(*slow, "--json")
    document = json.loads(out)
    assert code == 0
    assert document["rates"]["basis"] == "measured"
    assert document["time"]["seconds"] > 1000


@pytest.mark.slow
def test_measured_rates_without_a_figure_for_it_keep_the_assumed_memory_beside_tensors(estimate, rates):
    assumed = json.loads(estimate("--json")[1])["memory"][0]["overhead_bytes"]
    document = json.loads(estimate(*rates(overhead_bytes=None), "--json")[1])
    assert document["memory"][0]["overhead_bytes"] == assumed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device_model": "Stub S2"}, "expected rates of 'Stub S1', found those of 'Stub S2'"),
        ({"memory_bytes_per_second": 0}, "memory_bytes_per_second: expected 1000 to 1e+19, found 0"),
        ({"matmul_flops_per_second": {"fp32": -1}}, "matmul_flops_per_second.fp32: expected 1000 to"),
        ({"launch_seconds": 3600}, "launch_seconds: expected 0 to 1 s, found 3600"),
        ({"source": "A" * 100_000}, "source: expected at most 2000 characters, found 100000"),
        ({"overhead_bytes": -1}, "overhead_bytes: expected 0 to 1,125,899,906,842,624 bytes, found -1"),
        ({"matmul_flops_per_second": {"fp32": 1e18}}, "matmul_flops_per_second.fp32: expected at most the peak of"),
        ({"date": "yesterday"}, "date: expected a date such as 2026-01-31, found 'yesterday'"),
        ({"device_model": 3}, "rates.json: "),
    ],
)
def test_rates_that_the_device_cannot_have_are_refused(estimate, rates, change, message):
    code, _, err = estimate(*rates(**change))
    assert code == 2
    assert message in err


@pytest.mark.slow
def test_too_little_memory_is_said_with_the_nearest_setting_that_fits(estimate):
    code, out, _ = estimate("--set", "framework.peak_mib=600")
    assert code == 1
    assert "DOES NOT FIT, 0.1 too much" in out
    assert "nearest that fits" in out


def test_a_refusal_is_all_that_is_printed(estimate):
    code, out, _ = estimate("--set", "micro_batch=3")
    assert code == 2
    assert re.fullmatch(r"does not fit together:\n  tuning\.micro_batch: [^\n]*\[batch_not_divisible\]\n", out)


def test_other_devices_are_named_where_overlays_tune_a_case_on_them(capfd):
    words = ("estimate", "llama2_7b_pretrain_zero", "--analytic", "--on", "MI300X:1x8")
    assert call([*words]) == 0
    said = r"^overlays +none changed .*; other devices: gradient_checkpointing on NVIDIA A100-SXM4-80GB, .* and 9 more"
    assert re.search(said, capfd.readouterr()[0], re.MULTILINE)
    assert call([*words, "--set", "gradient_checkpointing=false"]) == 0
    assert re.search(r"^overlays +none, on this device", capfd.readouterr()[0], re.MULTILINE)


def test_an_overlay_made_for_a_model_is_not_for_another(capfd):
    words = ("estimate", "llama2_7b_pretrain_zero", "--analytic", "--set", "model=llama2_13b", "--json", "--on")
    for device in ("A100-SXM4-80GB:1x8", "H800:1x8"):
        assert call([*words, device]) == 0
        document = json.loads(capfd.readouterr()[0])
        assert document["spec"]["tuning"]["gradient_checkpointing"] is True


PRICES = Path(__file__).with_name("prices.toml").read_text()


@pytest.fixture
def priced(tmp_path, monkeypatch):
    """A file of prices; the working directory and the user's own configuration have none."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "prices.toml").write_text(PRICES)
    return str(tmp_path / "prices.toml")


@pytest.mark.slow
def test_an_estimate_says_what_a_training_costs_and_how_sure_that_is(estimate, priced):
    code, out, err = estimate("--prices", priced, "--train-tokens", "36M")
    assert code == 0, err
    assert re.search(r"price of a device +3.6 USD an hour: offer 7, 2026-11-01, from .*prices.toml", out)
    assert re.search(r"cost per million tokens +[\d.,]+ USD", out)
    assert re.search(r"tokens of a training +36M: as asked for", out)
    assert re.search(r"cost of a training +[\d.,]+ USD", out)
    assert re.search(
        r"cost of a training, expected +[\d.,]+ to [\d.,]+ USD: \d+ published rows .* were up to \d+% off", out
    )
    assert "further off is likely" in out
    assert re.search(r"electricity of a training +unknown: an estimate has no energy", out)
    assert "every step as fast as estimated; no failures" in out


@pytest.mark.slow
def test_the_document_has_the_cost_of_whole_devices(estimate, priced):
    _, out, err = estimate("--prices", priced, "--train-tokens", "36M", "--json")
    document = json.loads(out)
    jsonschema.Draft202012Validator(llmperf_schemas.load("estimate")).validate(document)
    cost = document["cost"]
    assert (cost["price"], cost["price_currency"], cost["price_date"]) == (3.6, "USD", "2026-11-01"), err
    hours = 36e6 / (2 * document["tokens_per_second_per_device"]) / 3600  # two ranks share one device
    assert cost["train_device_hours"] == pytest.approx(hours)
    assert cost["train_cost"] == pytest.approx(3.6 * hours)
    assert cost["train_seconds"] == pytest.approx(3600 * hours)
    assert cost["expected_error"] == document["expected_error"]["throughput_largest"]


@pytest.mark.slow
def test_a_case_that_does_not_fit_has_no_cost(estimate, priced):
    words = ("--set", "framework.peak_mib=600", "--prices", priced, "--train-tokens", "36M")
    code, out, err = estimate(*words)
    assert code == 1, err
    assert re.search(r"cost of a training +unknown: the memory does not suffice", out)
    assert "USD" not in out
    assert json.loads(estimate(*words, "--json")[1])["cost"] is None


@pytest.mark.slow
def test_without_prices_there_is_no_cost_and_a_device_without_one_has_none(estimate, priced, tmp_path):
    assert json.loads(estimate("--json")[1])["cost"] is None
    (tmp_path / "prices.toml").write_text(PRICES.replace("Stub", "Other X9"))
    code, out, _ = estimate("--prices", priced)
    assert code == 0
    assert re.search(r"price of a device +unknown: .*prices.toml has no price of .*; it has Other X9", out)
    assert not re.search(r"cost per million tokens +\d", out)
