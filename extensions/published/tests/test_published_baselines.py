"""Measured results held against published rows."""

import json
from pathlib import Path

import pytest
from llmperf.cli.main import call
from llmperf_compare.documents import read_baselines
from llmperf_published.baselines import SHIPPED

A100 = "NVIDIA A100-SXM4-40GB"
MEGATRON = {"case": "llama2_7b_pretrain_megatron", "model": "llama2_7b", "framework": "megatron_deepspeed"}


@pytest.fixture
def measured(example, tmp_path, saved):
    """Write runs as if measured where the published rows were; the folder's path."""

    def write(*throughputs, case, model, framework, device=A100, vendor="nvidia", grid=(1, 8), precision="bf16",
              seq_len=4096, batch=64, dataset="redpajama_sample", layout=(4, 1), **hardware):  # fmt: skip
        for number, figure in enumerate(throughputs):
            one = json.loads(json.dumps(example)) | {"run_id": f"run-{number}", "case": case, "fix_hp": []}
            one["files"]["records/rank-00000.jsonl"] = f"{number:064x}"
            one["model"]["name"] = model
            one["contract"] |= {"model": model, "precision": precision, "seq_len": seq_len, "dataset": dataset}
            one["tuning"]["framework"] = framework
            one["hardware"] |= {"vendor": vendor, "device_model": device, "device_share": 1.0, "simulated": False}
            one["hardware"] |= hardware
            nodes, each = grid
            data = nodes * each // (layout[0] * layout[1])
            names = ("nodes", "devices_per_node", "tensor_parallel", "pipeline_parallel", "data_parallel")
            one["parallelism"] |= dict(zip(names, (nodes, each, *layout, data), strict=True))
            one["batch"] |= {"global_batch": batch, "seq_len": seq_len, "micro_batch": 1}
            one["metrics"]["tokens_per_second_per_device"] = figure
            run = tmp_path / "runs" / one["run_id"]
            saved(run / "result.json", one)
        return str(tmp_path / "runs")

    return write


def compared(capsys, runs, expected=0):
    """What `compare --baseline published` says of the only kind of runs."""
    assert call(["compare", runs, "--baseline", "published", "--json"]) == expected
    (held,) = json.loads(capsys.readouterr().out)["published"]["A"]
    return held


def test_every_published_row_is_shipped_with_the_package():
    assert len(read_baselines("published")[1]) == 19
    assert SHIPPED.resolve() == (Path(__file__).parents[1] / "src/llmperf_published/data").resolve()


def test_the_row_on_the_same_contract_is_taken_and_said(measured, ran, capsys):
    runs = measured(2868.0 * 1.1, **MEGATRON)
    held = compared(capsys, runs)
    assert (held["place"], held["tokens_per_second_per_device"]) == ("llama2_7b_megatron_deepspeed_a100.md:57", 2868)
    assert held["share"] == pytest.approx(1.1)
    assert held["differs"] == []
    out = ran(0, "compare", runs, "--baseline", "published").out
    assert "1.10 times as fast as llama2_7b_megatron_deepspeed_a100.md:57, 2868 token/p/s" in out
    assert "one figure without its spread: whether a difference is significant is unknown" in out


def test_of_rows_that_fit_the_one_with_the_same_batch_is_taken(measured, capsys):
    assert compared(capsys, measured(2908.0, batch=1024, **MEGATRON))["place"].endswith(":58")


def test_differences_that_are_no_obstacle_are_said(measured, capsys):
    held = compared(capsys, measured(3000.0, batch=128, dataset="synthetic", layout=(2, 1), **MEGATRON))
    expected = ["global batch 64 (here 128)", "data set redpajama_sample (here synthetic)", "TP 4 (here 2)"]
    assert held["differs"] == expected


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"device": "NVIDIA A100-PCIE-40GB"}, "device NVIDIA_A100-SXM4-40GB (here NVIDIA A100-PCIE-40GB)"),
        ({"vendor": "rocm", "device": A100}, "has vendor nvidia (here rocm)"),
        ({"precision": "fp32"}, "precision amp (here fp32)"),
        ({"seq_len": 2048}, "sequence length 4096 (here 2048)"),
        ({"grid": (2, 8)}, "devices 8 (here 16)"),
        ({"case": "mine"}, "case llama2_7b_pretrain_megatron (here mine)"),
        ({"model": "llama_tiny"}, "none of 19 published rows is on llama_tiny"),
        ({"simulated": True}, "published rows are of real devices; these runs were on a simulated one"),
        ({"device_share": 0.5}, "published rows are of whole devices; in these runs each rank had 50 % of one"),
    ],
)
def test_where_no_row_fits_the_reason_is_said(changed, reason, measured, capsys):
    runs = measured(3000.0, **(MEGATRON | changed))
    held = compared(capsys, runs, expected=1)
    assert (held["place"], held["share"]) == (None, None)
    assert reason in held["why"]


def test_another_name_of_the_same_device_fits(measured, capsys):
    assert compared(capsys, measured(3000.0, device="A100-SXM-40GB", **MEGATRON))["share"] is not None


@pytest.mark.parametrize("case", ["llama2_7b_pretrain_zero", "llama2_7b_pretrain_zero_512"])
def test_withheld_figures_are_said(measured, capsys, case):
    zero = {"case": case, "model": "llama2_7b", "framework": "zero", "layout": (1, 1)}
    runs = measured(900.0, vendor="kunlunxin", device="R300", precision="fp16", seq_len=512, batch=96, **zero)
    held = compared(capsys, runs, expected=1)
    assert held["place"] == "llama2_7b_zero_r300.md:57"
    assert held["why"] == "llama2_7b_zero_r300.md:57 fits, but withholds its throughput"


def test_a_row_that_names_a_family_fits_each_device_of_it_and_says_so(measured, capsys):
    paddle = {"case": "llama1_7b_pretrain_paddle", "model": "llama1_7b", "framework": "paddle"}
    runs = measured(2744.0, precision="fp16", seq_len=2048, batch=2048, layout=(1, 1), **paddle)
    held = compared(capsys, runs)
    assert (held["place"], held["share"]) == ("llama1_paddle_a100.md:54", 1.0)
    assert "device, which it only calls A100" in held["differs"]


def test_tf32_is_often_called_fp32_and_that_is_said(measured, capsys):
    lora = {"case": "llama2_7b_lora", "model": "llama2_7b", "framework": "lora", "dataset": "samsum"}
    runs = measured(2788.0, precision="tf32", seq_len=512, batch=2, layout=(1, 1), grid=(1, 1), **lora)
    held = compared(capsys, runs)
    assert held["place"] == "llama2_7b_lora_a100.md:64"
    assert "precision fp32 (here tf32)" in held["differs"]


def test_summary_fails_below_a_published_figure(measured, ran, capsys):
    runs = measured(2868.0 * 0.9, 2868.0 * 0.92, 2868.0 * 0.91, **MEGATRON)
    out = ran(0, "summary", runs, "--baseline", "published", "--fail-below", "0.9").out
    assert "0.9100" in out
    assert "llama2_7b_megatron_deepspeed_a100.md:57" in out
    assert call(["summary", runs, "--baseline", "published", "--fail-below", "0.95"]) == 1
    assert "1 of 1 below 0.95 of the baseline" in capsys.readouterr().err
    assert call(["summary", runs, "--baseline", "published", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["published"]["share"] == pytest.approx(0.91)


def test_summary_fails_where_no_published_row_fits(measured, ran):
    runs = measured(2868.0, **(MEGATRON | {"device": "NVIDIA H200"}))
    told = ran(1, "summary", runs, "--baseline", "published", "--fail-below", "0.5")
    assert "none of 19 published rows fits; the nearest" in told.out
    assert "1 of 1 without a figure or without a baseline" in told.err


def test_imported_documents_of_one_s_own_are_baselines_too(measured, tmp_path, capsys):
    runs = measured(2868.0, **MEGATRON)
    source = Path(__file__).parent / "published_documents" / "llama2_7b_megatron_deepspeed_a100.md"
    assert call(["import", str(source), "--out", str(tmp_path / "mine")]) == 0
    for command in ("compare", "summary"):
        capsys.readouterr()
        assert call([command, runs, "--baseline", str(tmp_path / "mine")]) == 0
        assert "1.00 times as fast as llama2_7b_megatron_deepspeed_a100.md:57" in capsys.readouterr().out


def test_two_groups_and_published_rows_at_once(measured, ran):
    runs = Path(measured(2868.0, 2900.0, **MEGATRON))
    one, other = str(runs / "run-0"), str(runs / "run-1")
    out = ran(0, "compare", one, other, "--baseline", "published").out
    assert "B / A" in out
    assert "B: llama2_7b_pretrain_megatron on 1x8" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "B: expected runs or documents, or --baseline PATH"),
        ([str(SHIPPED)], "expected runs, found imported documents; compare runs with them by --baseline"),
        (["--baseline", "publisched"], "publisched: no such file or folder"),
    ],
)
def test_bad_input_is_one_line(words, told, measured, ran):
    error = ran(2, "compare", measured(1.0, **MEGATRON), *words).err
    assert told in error
    assert len(error.splitlines()) == 1


def test_a_published_table_has_to_be_imported_before_it_is_reported(tmp_path, ran):
    table = tmp_path / "README.md"
    table.write_text("| configuration | token/p/s |\n| --- | --- |\n| A100 (1x8) | 100 |\n")
    error = ran(2, "report", table).err
    assert f"{table}: expected a result, an estimate" in error
    assert ", found a table of results" in error
    assert error.endswith("; import it first: llmperf import\n")
