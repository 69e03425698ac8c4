"""fp16 with loss scaling: a step whose gradients overflow is skipped, and says so."""

import os
from dataclasses import replace

import pytest

pytestmark = pytest.mark.slow


def outputs(program, monkeypatch, precision, steps=6):
    """What a trainer gives on a CPU, which no plan has in fp16: half precision is only slow there."""
    from llmperf_pytorch.ddp import DdpTrainer

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
    import torch

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
