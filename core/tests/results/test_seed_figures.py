"""Tokens and memory of the published FlagPerf tables; their MFU is computed again in vendors/nvidia/tests."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from llmperf import standard_layout
from llmperf.accounting.model_states import stage_state_bytes
from llmperf.accounting.optimiser_step import batch_of, settle
from llmperf.accounting.parameters import lora_parameters
from llmperf.accounting.rank_layout import data_parallel_of
from llmperf.cases.library import library

model, case = library().model, library().case


def settled(name: str, **changed: int) -> tuple[int, int]:
    """Global batch and tokens per step of a published case, some of its settings changed as a row's fix_hp does."""
    document = case(name)
    tuning = replace(document.tuning, **changed)
    data_parallel = data_parallel_of(tuning)
    whole, accumulation, problem = settle(
        document.contract, tuning, data_parallel, {f"tuning.{path}" for path in changed}
    )
    assert problem is None
    contract = replace(document.contract, global_batch=whole)
    batch = batch_of(contract, replace(tuning, gradient_accumulation=accumulation), data_parallel)
    return batch.global_batch, batch.tokens_per_step


def test_first_hundred_million_tokens() -> None:
    for name in ("baichuan2_13b_pretrain_zero", "llama2_7b_pretrain_zero"):
        _, tokens = settled(name)
        steps = case(name).contract.steps
        assert steps * tokens <= 100_000_000 < (steps + 1) * tokens


@pytest.mark.parametrize(
    ("name", "changed", "published_gib"),
    [
        ("llama2_7b_pretrain_megatron", {}, 32),
        ("llama2_7b_lora", {}, 37.3),
        ("baichuan2_13b_pretrain_zero", {}, 77),
        ("llama2_7b_pretrain_zero", {}, 29),
        ("llama1_7b_pretrain_paddle", {}, 70.09),
        ("llama1_7b_pretrain_paddle", {"sharding_stage": 1, "tensor_parallel": 2, "sharding_degree": 4}, 58.73),
        ("llama1_7b_pretrain_paddle", {"tensor_parallel": 2, "sharding_degree": 4}, 54.01),
        ("llama1_13b_pretrain_paddle", {}, 60.06),
    ],
)
def test_model_states_leave_room_for_activations(name: str, changed: dict[str, int], published_gib: float) -> None:
    """Estimated states are a part, and no small one, of the memory that was measured with activations."""
    document = case(name)
    layout = standard_layout(SimpleNamespace(tuning=replace(document.tuning, **changed)))
    facts, lora = model(document.contract.model), document.contract.lora
    adapters = None if lora is None else lora_parameters(facts, lora)
    held = max(stage_state_bytes(facts, layout, document.contract.precision, adapters)) / 2**30
    assert 0.25 * published_gib < held < published_gib
