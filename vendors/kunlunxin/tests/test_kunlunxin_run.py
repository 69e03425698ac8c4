"""The published case on a machine that plays R300s: tool and runtime are stand-ins, and the result says so."""

from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
STAND_IN = Path(__file__).parent / "stand_in"
SMALL = ("model=llama_tiny", "dataset=synthetic", "precision=fp32", "seq_len=128", "global_batch=4", "micro_batch=2")
STEPS = ("steps=6", "warmup_steps=2")


def test_the_published_case_runs_and_says_that_it_was_simulated(machines, card, tmp_path, result_of_run, apart):
    machines.play(*[card()] * 2, driver="4.23 (llmperf stand-in)")
    words = ["llama2_7b_pretrain_zero", "--vendor", "kunlunxin", "--devices", "2"]
    settings = [word for device in (*SMALL, *STEPS) for word in ("--set", device)]
    stand_in = {"PYTHONPATH": str(STAND_IN), "DS_ACCELERATOR": "cpu"}  # deepspeed would take the stand-in for real
    result = result_of_run(*words, *settings, **stand_in)
    assert result["status"] == "complete"
    hardware, metrics = result["hardware"], result["metrics"]
    assert (hardware["vendor"], hardware["device_model"], hardware["simulated"]) == ("kunlunxin", "R300", True)
    assert hardware["driver"] == "4.23 (llmperf stand-in)"
    assert metrics["tokens_per_second_per_device"] > 0
    assert (metrics["device_memory_used_bytes"], metrics["device_memory_total_bytes"]) == (29 * 2**30, 32 * 2**30)
    assert result["variant"]
    assert [device["value"] for device in result["mfu"] if device["value"] is not None] == []  # no peak in fp32
    (path,) = (tmp_path / "runs").glob("*/result.json")
    assert "(simulated)" in apart(0, "report", path).stdout


def test_a_stand_in_on_a_machine_that_calls_itself_real_fails(machines, card, tmp_path, apart):
    machines.play(card())
    words = ["run", "default", "--vendor", "kunlunxin", "--devices", "1", "--out", tmp_path / "runs"]
    done = apart(1, *words, PYTHONPATH=str(STAND_IN))
    assert "torch_xmlir is a stand-in" in done.stdout + done.stderr
