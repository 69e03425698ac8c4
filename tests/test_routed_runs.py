"""Runs of a mixture whose routing is part of the contract: the load of experts is that of the tables."""

import pytest
from llmperf.files import json_files
from llmperf.types import Result
from llmperf_verify.rules.experts import table_loads


@pytest.mark.slow
def test_experts_take_the_tokens_of_their_tables(tmp_path, monkeypatch, ran):
    monkeypatch.chdir(tmp_path)
    sets = ("model=qwen3_moe_tiny", "routing=skewed", "routing_skew=1.2", "seq_len=64",
            "micro_batch=1", "gradient_checkpointing=true", "steps=5", "warmup_steps=2")  # fmt: skip
    options = [word for setting in sets for word in ("--set", setting)]
    shown = ran(
        0, "run", "default", "--vendor", "cpu", "--framework", "pytorch", "--devices", "2", "--verbose", *options
    ).out
    assert "skewed, exponent 1.2" in shown
    assert "expert load, most / mean" in shown
    (path,) = tmp_path.glob("runs/*/result.json")
    result = json_files.load(path, Result)
    sequences = 3 * result.batch.global_batch
    for load in result.expert_load:
        sequence = table_loads(result.contract, result.model, load.layer, 64)
        assert load.tokens == tuple(sequences * count for count in sequence)
    assert len(result.expert_load) == result.model.layers
    assert not [finding for finding in result.findings if finding.severity == "error"]
