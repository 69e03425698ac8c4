"""What a comparison of losses and gradient norms says: agreement, a difference, or too little to tell."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from llmperf.files import json_files
from llmperf.types.result import LossPoint, Result
from llmperf_verify.documents import Impossible
from llmperf_verify.rerun import _Progress
from llmperf_verify.rerun_comparison import compared

STEPS = 8


def curve(steps=STEPS, loss=8.0, slope=0.1, norm=1.0):
    return [LossPoint(step=step, loss=loss - slope * step, grad_norm=norm) for step in range(1, steps + 1)]


@pytest.fixture
def check(run_folder):
    """Compares a submitted curve with one of this machine."""
    read = json_files.load(run_folder / "result.json", Result)
    contract = replace(read.contract, precision="fp32", steps=STEPS)
    read = replace(read, contract=contract, loss_curve_every=1, tuning=replace(read.tuning, framework="pytorch"))

    def compare(submitted, here, *, asked=STEPS, skipped=None, framework="pytorch", stage=None, precision="fp32"):
        result = replace(read, loss_curve=tuple(submitted))
        tuning = replace(result.tuning, framework=framework)
        tuning = tuning if stage is None else replace(tuning, sharding_stage=stage)
        plan = SimpleNamespace(
            spec=SimpleNamespace(tuning=tuning), batch=result.batch, layout=SimpleNamespace(world_size=1),
            flops=SimpleNamespace(parameters=result.parameters),
        )  # fmt: skip
        rerun = SimpleNamespace(plan=plan, precision=precision)
        return compared(rerun, SimpleNamespace(loss_curve=here), submitted, result, asked, skipped)

    return compare


def test_losses_that_agree_pass_and_the_framework_is_named(check):
    passed = check(curve(), curve())
    assert passed.outcome == "passed"
    assert passed.message.startswith("8 steps by pytorch (the submitter's own framework) fp32 on 1 rank: loss differs")
    assert "own framework" not in check(curve(), curve(), framework="zero").message


def test_more_steps_than_the_run_has(check):
    message = check(curve(), curve(), asked=99).message
    assert message.startswith("8 steps (asked for 99; the run has no more) by pytorch")


def test_losses_that_stay_where_they_begin_prove_nothing(check):
    still = curve(slope=0.0)
    stays = check(still, still)
    assert stays.outcome == "impossible"
    assert "the losses move by less than the bound, and so a guess would agree, too" in stays.message
    assert check([replace(point, loss=point.loss + 0.5) for point in still], still).outcome == "failed"


def test_fewer_steps_than_asked_for_prove_nothing(check):
    short = check(curve(2), curve(2))
    assert short.outcome == "impossible"
    assert "expected the losses of 8 steps, found 2" in short.message


def test_a_skipped_update_cannot_be_followed_in_fp32(check):
    later = [replace(point, loss=point.loss + (point.step > 3)) for point in curve()]
    skipped = check(later, curve(), skipped=3)
    assert skipped.outcome == "impossible"
    assert "skipped the update of step 3, which a rerun in another precision cannot follow" in skipped.message
    assert check(later, curve()).outcome == "failed"


def test_gradient_norms_that_were_left_out(check):
    without = [replace(point, grad_norm=None) for point in curve()]
    left_out = check(without, curve())
    assert left_out.outcome == "failed"
    assert "the submission has no gradient norm of step 1, 2, 3, 4, 5, and this framework recorded" in left_out.message
    assert check([*without[:1], *curve()[1:]], curve()).outcome == "failed"
    assert check(without, curve(), stage=3).outcome == "impossible"
    other = check(without, curve(), framework="zero")
    assert other.outcome == "passed"
    assert "gradient norms were not compared" in other.message


def test_a_slow_first_step_ends_the_rerun():
    progress = _Progress(SimpleNamespace(steps=5), [], lambda line: None, limit_seconds=100)
    quick = SimpleNamespace(step=1, step_seconds=20, loss=None)
    progress.observe(SimpleNamespace(steps=5), [quick])
    with pytest.raises(Impossible, match="more than the limit"):
        progress.observe(SimpleNamespace(steps=5), [SimpleNamespace(step=1, step_seconds=30, loss=None)])
