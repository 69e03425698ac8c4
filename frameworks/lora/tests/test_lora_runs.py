"""`llmperf run` of the published fine-tuning on a small model, as a user types it."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CASE = ("llama2_7b_lora", "--set", "model=llama_tiny")


def test_one_rank_on_padded_samsum_with_mmlu_and_a_checkpoint_saved(tmp_path, samsum, mmlu, result_of_run, apart):
    settings = {
        "dataset": "samsum", "data.path": samsum, "data.repeat": "true", "packing": "padded", "framework.mmlu": mmlu,
        "framework.mmlu_shots": 1, "framework.mmlu_limit": 4, "framework.save_adapter": "true",
    }  # fmt: skip
    result = result_of_run(*CASE, *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")))
    assert (result["status"], result["variant"]) == ("complete", True)
    assert len(result["metrics"]["evaluation"]) == 2 * (1 + 3)
    assert 0 < result["metrics"]["measured_tokens"] < 8 * result["batch"]["tokens_per_step"]
    assert [note.split(":")[0] for note in result["notes"]] == ["base weights", "MMLU", "padded sequences"]
    assert not [one for one in result["findings"] if one["severity"] == "error"]
    (run,) = (tmp_path / "runs").iterdir()
    assert {path.name for path in (run / "adapter").iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}
    shown = apart(0, "report", run).stdout
    assert all(f"{figure} " in shown for figure in ("mmlu_before", "mmlu_after"))


def test_two_ranks_by_zero(result_of_run):
    result = result_of_run(*CASE, "--devices", "2", "--set", "sharding_stage=2")
    assert result["status"] == "complete"
    assert result["parallelism"]["sharding_stage"] == 2
    assert result["metrics"]["evaluation"] == {}
    assert "peft" in result["software"]["packages"]
