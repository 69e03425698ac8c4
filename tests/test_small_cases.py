"""Each published case runs on this machine with a small model, and its result says that it is a variant."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

RUNS = [
    pytest.param("llama2_7b_pretrain_megatron", 4, "megatron_deepspeed", marks=pytest.mark.long),
    ("llama2_7b_lora", 1, "lora"),
    ("baichuan2_13b_pretrain_zero", 2, "zero"),
    pytest.param("llama2_7b_pretrain_zero", 2, "zero", marks=pytest.mark.long),
    ("llama1_7b_pretrain_paddle", 2, "paddle"),
]


@pytest.mark.parametrize(("case", "ranks", "framework"), RUNS)
def test_a_published_case_on_a_small_model(result_of_run, case, ranks, framework):
    result = result_of_run(case, "--set", "model=llama_tiny", "--devices", str(ranks))
    assert (result["status"], result["variant"], result["case"]) == ("complete", True, case)
    assert result["tuning"]["framework"] == framework
    assert {"contract.model", "contract.seq_len"} <= {change["path"] for change in result["fix_hp"]}
    assert result["metrics"]["tokens_per_second_per_device"] > 0
    assert [one["code"] for one in result["findings"] if one["severity"] == "error"] == []
