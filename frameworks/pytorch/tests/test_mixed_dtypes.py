"""What autocast computes in: the residual stream, the inputs of norms, keys that no kernel takes in groups."""

import os
from dataclasses import replace

import pytest
import torch
from llmperf_pytorch import attention
from llmperf_pytorch.ddp import DdpTrainer
from llmperf_pytorch.decoder.model import Block
from llmperf_pytorch.kernels import choice
from llmperf_pytorch.kernels.choice import Kernels
from llmperf_pytorch.models import construct_model

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("offset", [False, True])
def test_the_residual_stream_and_the_inputs_of_norms_have_one_dtype_under_autocast(program, monkeypatch, offset):
    pairs, plain = set(), choice.functional.rms_norm

    def noted(hidden, shape, weight, eps):
        pairs.add((hidden.dtype, weight.dtype))
        return plain(hidden, shape, weight, eps)

    monkeypatch.setattr(choice.functional, "rms_norm", noted)
    facts = {"qk_norm": "head", "norm_offset": offset, "embedding_scale": 8.0 if offset else 1.0}
    model = construct_model(program.make_spec({"framework": "pytorch", "model": facts}), Kernels(("rms_norm",)))
    streams = []
    for block in model.modules():
        if isinstance(block, Block):
            block.register_forward_hook(lambda block, inputs, output: streams.append((inputs[0].dtype, output.dtype)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(torch.randint(0, 512, (1, 16)))
    assert set(streams) == {(torch.bfloat16, torch.bfloat16)}
    assert pairs == {(torch.float32, torch.float32)} if offset else {(torch.bfloat16, torch.bfloat16)}


@pytest.mark.parametrize(
    ("dtype", "masked", "heads"), [("bfloat16", False, 2), ("bfloat16", True, 8), ("float32", False, 8)]
)
def test_grouped_keys_are_repeated_where_only_a_kernel_with_all_scores_takes_groups(monkeypatch, dtype, masked, heads):
    seen = []

    def kernel(query, key, value, **options):
        seen.append((key.shape[1], value.shape[1], options["enable_gqa"]))
        return query

    monkeypatch.setattr(attention.functional, "scaled_dot_product_attention", kernel)
    query, key = (torch.empty(1, number, 16, 64, dtype=getattr(torch, dtype), device="meta") for number in (8, 2))
    bias = torch.empty(16, 16, dtype=query.dtype, device="meta") if masked else None
    attention.sdpa_attention(query, key, key, bias)
    assert seen == [(heads, heads, heads == 2)]


def outputs(program, monkeypatch, precision, steps=6):
    """What a trainer gives on a CPU, which no plan has in fp16: half precision is only slow there."""
    monkeypatch.setitem(os.environ, "RANK", "0")
    plan = program.make_plan({"framework": "pytorch", "tuning": {"micro_batch": 4}})
    contract = replace(plan.spec.contract, precision=precision, steps=100)
    plan = replace(plan, spec=replace(plan.spec, contract=contract))
    with DdpTrainer(plan, program.TestDevice("cpu")) as trainer:
        model = trainer._parameters
        for _ in range(steps):
            before = [parameter.detach().clone() for parameter in model]
            output = trainer.train_step()
            changed = any(not (was == now).all() for was, now in zip(before, model, strict=True))
            yield output, changed, trainer._scaler.get_scale()


def test_a_step_whose_gradients_overflow_is_skipped_and_says_so(program, monkeypatch):
    whole = torch.amp.GradScaler.__init__
    monkeypatch.setattr(
        torch.amp.GradScaler,
        "__init__",
        lambda self, device, enabled: whole(self, device, init_scale=2.0**24, enabled=enabled),
    )
    found = list(outputs(program, monkeypatch, "fp16", steps=16))
    skipped = [output.skipped for output, _, _ in found]
    assert skipped[0] is True
    assert False in skipped
    for output, changed, _ in found:
        assert changed is not output.skipped
        assert output.tokens == 4 * 64
    assert found[-1][2] == 2.0 ** (24 - sum(skipped))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_without_loss_scaling_no_step_is_skipped(program, monkeypatch, precision):
    assert [(output.skipped, changed) for output, changed, _ in outputs(program, monkeypatch, precision)] == [
        (False, True)
    ] * 6
