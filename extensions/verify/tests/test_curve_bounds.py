"""Which cheats a rerun of five steps shows: the curves of a small model in NumPy, trained honestly and otherwise."""

from dataclasses import replace

import numpy as np
import pytest
from llmperf import open_batches
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site
from llmperf.types.result import LossPoint
from llmperf_testing.reference import AdamW, Llama
from llmperf_verify.rerun_comparison import FP8, FP32, REDUCED, bounds_of, losses, norms

STEPS = 5


@pytest.fixture(scope="module")
def plan():
    settings = ("seq_len=16", "contract.steps=30", "sharding_stage=0", "micro_batch=1", "model=llama3_tiny")
    made = plan_only(Selection("default", framework="pytorch", settings=settings), Site(vendor="cpu", devices=2)).plan
    smaller = replace(made.spec.model, vocab_size=256, hidden_size=32, intermediate_size=64, layers=2)
    return replace(made, spec=replace(made.spec, model=smaller))


def bf16(values):
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x8000) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def curve(plan, cheat="none"):
    """Losses and gradient norms of the first steps, trained with a cheat."""
    contract, model, ranks = plan.spec.contract, plan.spec.model, plan.batch.data_parallel
    optimizer = contract.optimizer
    if cheat == "fewer layers":
        model = replace(model, layers=1)
    if cheat == "another learning rate":
        optimizer = replace(optimizer, lr=1.1 * optimizer.lr)
    if cheat == "no clipping":
        optimizer = replace(optimizer, clip_norm=None)
    if cheat == "no weight decay":
        optimizer = replace(optimizer, weight_decay=0.0)
    llama = Llama(model, seed=contract.seed + (cheat == "another seed"))
    adamw = AdamW(llama.weights, optimizer, contract.steps)
    opened = [open_batches(plan, rank) for rank in range(ranks)]
    rows, points = None, []
    for step in range(1, STEPS + 1):
        micro, sums = [], []
        for batches in opened:
            for number in range(plan.batch.gradient_accumulation):
                if not (cheat == "repeated tokens" and rows is not None):
                    rows = batches.next_micro_batch()
                if cheat == "half batches" and number % 2:
                    continue
                micro.append(llama.learn(rows))
            sums.append(dict(llama.gradients))
            llama.gradients.clear()
        used = sums[:1] if cheat in ("no reduction", "one rank's data") else sums
        shared = len(micro) // ranks * len(used)
        gradients = {name: sum(part[name] for part in used) / shared for name in sums[0]}
        loss = np.mean(micro[: len(micro) // ranks] if cheat == "one rank's data" else micro)
        norm = np.sqrt(sum(float(np.square(part).sum()) for part in gradients.values()))
        points.append(LossPoint(step=step, loss=float(loss), grad_norm=float(norm)))
        if not (cheat == "no optimiser" or (cheat == "every third step skipped" and step % 3 == 0)):
            adamw.update(gradients)
        if cheat == "bf16":
            for weight in llama.weights.values():
                weight[...] = bf16(weight)
    for batches in opened:
        batches.close()
    return points


@pytest.fixture(scope="module")
def honest(plan):
    return curve(plan)


def test_an_honest_curve_is_within_the_bounds(plan, honest):
    rounded = [replace(point, loss=float(np.float32(point.loss))) for point in honest]
    assert losses(rounded, honest, FP32).within
    assert norms(rounded, honest, FP32).within


CHEATS = (
    *("no optimiser", "no reduction", "one rank's data", "half batches", "fewer layers", "another learning rate"),
    *("repeated tokens", "every third step skipped", "another seed", "no clipping", "bf16"),
)


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_rerun_shows(cheat, plan, honest):
    forged = curve(plan, cheat)
    loss, norm = losses(forged, honest, FP32), norms(forged, honest, FP32)
    assert not loss.within, f"{loss.text}; {norm.text}"


def test_missing_weight_decay_does_not_show_in_few_steps(plan, honest):
    assert losses(curve(plan, "no weight decay"), honest, FP32).within


def test_invented_losses_show(honest):
    first, last = honest[0].loss, honest[-1].loss
    line = [replace(point, loss=first + (last - first) * (point.step - 1) / (STEPS - 1)) for point in honest]
    for invented in (line, [replace(point, loss=first) for point in honest]):
        difference = losses(invented, honest, FP32)
        assert not difference.within
        assert difference.text.startswith("loss differs by ")
        assert f"step {difference.step}" in difference.text


def test_a_step_without_a_loss_is_passed_over(honest):
    gaps = [replace(point, loss=None if point.step == 2 else point.loss, grad_norm=None) for point in honest]
    assert losses(gaps, honest, FP32).steps == STEPS - 1
    assert norms(gaps, honest, FP32) is None


def test_only_two_runs_in_fp32_have_the_narrow_bounds():
    assert bounds_of("fp32", "fp32") == FP32
    assert bounds_of("bf16", "fp32") == bounds_of("fp16", "fp16") == REDUCED
    assert bounds_of("fp8_rowwise", "fp32") == FP8
    assert FP8.of_loss(5) > REDUCED.of_loss(5) > REDUCED.of_loss(1) > FP32.of_loss(5)
