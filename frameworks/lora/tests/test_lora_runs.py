"""`llmperf run` of the published fine-tuning on a small model, as a user types it."""

import json
import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CASE = [sys.executable, "-m", "llmperf", "run", "llama2_7b_lora", "--set", "model=llama_tiny"]


def run_of(folder):
    (run,) = (folder / "runs").iterdir()
    return run


def result_of(folder):
    return json.loads((run_of(folder) / "result.json").read_text())


def test_one_rank_on_padded_samsum_with_mmlu_and_a_checkpoint_saved(tmp_path, samsum, mmlu):
    settings = {
        "dataset": "samsum", "data.path": samsum, "data.repeat": "true", "packing": "padded", "framework.mmlu": mmlu,
        "framework.mmlu_shots": 1, "framework.mmlu_limit": 4, "framework.save_adapter": "true",
    }  # fmt: skip
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    done = subprocess.run([*CASE, *words], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"mmlu_before +0\.\d+\nmmlu_after +0\.\d+\n", done.stdout)
    result = result_of(tmp_path)
    assert (result["status"], result["variant"]) == ("complete", True)
    assert len(result["metrics"]["evaluation"]) == 2 * (1 + 3)
    assert 0 < result["metrics"]["measured_tokens"] < 8 * result["batch"]["tokens_per_step"]
    assert [note.split(":")[0] for note in result["notes"]] == ["base weights", "MMLU", "padded sequences"]
    assert not [one for one in result["findings"] if one["severity"] == "error"]
    assert {path.name for path in (run_of(tmp_path) / "adapter").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }


def test_two_ranks_by_zero(tmp_path):
    words = ["--devices", "2", "--set", "sharding_stage=2"]
    done = subprocess.run([*CASE, *words], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    result = result_of(tmp_path)
    assert result["status"] == "complete"
    assert result["parallelism"]["sharding_stage"] == 2
    assert result["metrics"]["evaluation"] == {}
    assert "peft" in result["software"]["packages"]
