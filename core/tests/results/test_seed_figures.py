"""The figures of the published FlagPerf tables, computed again from their own throughput, batch and hardware."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from types import SimpleNamespace

import pytest
from llmperf import standard_layout
from llmperf.accounting.flops import count_flops, utilisation
from llmperf.accounting.model_states import stage_state_bytes
from llmperf.accounting.optimiser_step import batch_of, settle
from llmperf.accounting.parameters import lora_parameters
from llmperf.accounting.rank_layout import data_parallel_of
from llmperf.cases.library import library
from llmperf.types import PeakFlops, Workload

model, case = library().model, library().case
A100, H800 = 312e12, 989e12
"""Dense 16-bit peaks, FLOP/s, that the published MFU figures were computed with."""


def printed(value: float, digits: int) -> str:
    """As the tables print it: rounded half up."""
    return str(Decimal(f"{value:.9g}").quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


@pytest.mark.parametrize(
    ("case_name", "token_per_second", "peak", "published"),
    [
        ("llama2_7b_pretrain_megatron", 2868, A100, "38.6"),
        ("llama2_7b_pretrain_megatron", 2908, A100, "39.1"),
        ("baichuan2_13b_pretrain_zero", 2068, H800, "16.3"),
        ("baichuan2_13b_pretrain_zero", 2710, H800, "21.4"),
        ("llama2_7b_lora", 4017, A100, "36.1"),
    ],
)
def test_published_mfu(case_name: str, token_per_second: float, peak: float, published: str) -> None:
    contract = case(case_name).contract
    facts, lora = model(contract.model), contract.lora
    adapters = None if lora is None else lora_parameters(facts, lora)
    flops = count_flops(facts, Workload(seq_len=contract.seq_len, lora_parameters=adapters))
    claim = PeakFlops(device_model="-", dtype="bf16", flops_per_second=peak, source="-", date="2023-01")
    (headline,) = [one for one in utilisation(flops, token_per_second, claim, 1.0) if one.headline]
    assert headline.value is not None
    assert printed(100 * headline.value, 1) == published


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


MILLION = 2**20


@pytest.mark.parametrize(
    ("name", "changed", "global_batch", "tokens"),
    [
        ("llama2_7b_pretrain_megatron", {"gradient_accumulation": 512}, 1024, 4 * MILLION),  # GBS=1024=4M tokens
        ("llama2_7b_lora", {"micro_batch": 4, "gradient_accumulation": 1}, 4, 2048),  # local_batchsize=4
        ("baichuan2_13b_pretrain_zero", {"gradient_accumulation": 64}, 1024, 2 * MILLION),  # globalbs=2M tokens
    ],
)
def test_published_batches_of_rows_with_changes(
    name: str, changed: dict[str, int], global_batch: int, tokens: int
) -> None:
    assert settled(name, **changed) == (global_batch, tokens)


def test_first_hundred_million_tokens() -> None:
    for name in ("baichuan2_13b_pretrain_zero", "llama2_7b_pretrain_zero"):
        _, tokens = settled(name)
        steps = case(name).contract.steps
        assert steps * tokens <= 100_000_000 < (steps + 1) * tokens


PADDLE = [
    # case, micro batch, accumulation, tensor, pipeline, sequences per second of 8 devices, published token/p/s
    ("llama1_7b_pretrain_paddle", 4, 64, 1, 1, "16.67", 4267),
    ("llama1_7b_pretrain_paddle", 4, 128, 2, 1, "15.19", 3888),
    ("llama1_7b_pretrain_paddle", 4, 128, 2, 1, "14.26", 3650),
    ("llama1_7b_pretrain_paddle", 4, 512, 2, 4, "14.54", 3722),
    ("llama1_7b_pretrain_paddle", 2, 128, 1, 1, "10.72", 2744),
    ("llama1_7b_pretrain_paddle", 2, 256, 2, 1, "8.45", 2163),
    ("llama1_7b_pretrain_paddle", 2, 256, 2, 1, "8.44", 2160),
    ("llama1_7b_pretrain_paddle", 2, 1024, 2, 4, "8.72", 2232),
    ("llama1_13b_pretrain_paddle", 2, 128, 1, 1, "6.67", 1707),
    ("llama1_13b_pretrain_paddle", 2, 256, 2, 1, "6.27", 1605),
    ("llama1_13b_pretrain_paddle", 2, 256, 2, 1, "5.82", 1489),
    ("llama1_13b_pretrain_paddle", 4, 512, 2, 4, "6.24", 1597),
]


@pytest.mark.parametrize(("name", "micro", "rounds", "tensor", "pipeline", "sequences", "published"), PADDLE)
def test_published_paddle_rows(
    name: str, micro: int, rounds: int, tensor: int, pipeline: int, sequences: str, published: int
) -> None:
    """Every row trains 4M tokens a step, and its token/p/s is its sequences per second x 2048 / 8, rounded down."""
    changed = {
        "micro_batch": micro,
        "gradient_accumulation": rounds,
        "tensor_parallel": tensor,
        "pipeline_parallel": pipeline,
        "sharding_degree": 8 // (tensor * pipeline),
    }
    assert settled(name, **changed) == (2048, 4 * MILLION)
    contract, devices = case(name).contract, case(name).tuning.devices
    assert int(Decimal(sequences) * contract.seq_len / devices) == published


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


def test_gradient_checkpointing_costs_a_third_more() -> None:
    """The tables speak of 34 % more computation."""
    contract = case("baichuan2_13b_pretrain_zero").contract
    workload = Workload(seq_len=contract.seq_len, gradient_checkpointing=True)
    flops = count_flops(model(contract.model), workload)
    assert flops.of("hfu").flops / flops.of("palm").flops == pytest.approx(1.34, abs=0.01)


def test_published_fp32_fine_tuning_cannot_have_been_fp32() -> None:
    """2788 token/p/s on an A100: beyond its fp32 peak under every convention, and half of its TF32 peak."""
    facts = model("llama2_7b")
    flops = count_flops(facts, Workload(seq_len=512, lora_parameters=4_194_304))
    assert all(2788 * entry.flops > 3 * 19.5e12 for entry in flops.per_token)
    assert 0.4 < 2788 * flops.of("nominal").flops / 156e12 < 0.6
