"""What cannot fit is refused before anything starts; what may not fit has a note; steps have an expected time."""

import re
from dataclasses import replace
from functools import cache

import pytest
from llmperf.cli.main import call
from llmperf.planning.build import plan_only
from llmperf.planning.ready import ready
from llmperf.planning.states import Outcome, Planned, Request, RunOptions, Selection, Site
from llmperf.running.suggestions import with_suggestions
from llmperf_estimate.checks import plan_checks

MEGATRON = ("llama2_7b_pretrain_megatron", "A100-SXM4-40GB:1x8")


@cache
def outcome(case: str, on: str, *settings: str, preflight: bool = True) -> Outcome:
    request = Request(Selection(case, settings=settings), Site(on=on), RunOptions(preflight=preflight))
    return with_suggestions(ready(plan_only(*request)), request)


@pytest.mark.parametrize(
    ("case", "on"),
    [
        MEGATRON,
        ("llama2_7b_pretrain_megatron", "A100-SXM4-80GB:1x8"),
        ("llama2_7b_lora", "A100-SXM4-40GB:1x1"),
        ("baichuan2_13b_pretrain_zero", "H800:2x8"),
        ("baichuan2_13b_pretrain_zero", "H800:1x8"),
        ("llama2_7b_pretrain_zero", "R300:1x8"),
        ("llama2_7b_pretrain_zero", "A100-SXM4-80GB:1x8"),
        ("llama1_7b_pretrain_paddle", "A100-SXM4-80GB:1x8"),
        ("llama1_7b_pretrain_paddle", "A100-SXM4-40GB:1x8"),
        ("llama1_13b_pretrain_paddle", "A100-SXM4-80GB:1x8"),
    ],
)
def test_published_cases_fit_their_devices(case, on):
    planned = outcome(case, on)
    assert isinstance(planned, Planned), planned.problems
    assert not [note for note in planned.plan.notes if note.startswith("memory may not suffice")]


def test_activations_that_cannot_fit_are_refused_with_settings_that_do():
    problem = outcome(*MEGATRON, "micro_batch=8").problems[0]
    assert (problem.code, problem.where) == ("memory_estimate_too_large", "tuning.micro_batch")
    assert "40.0 GiB are there (--no-preflight starts it anyway)" in problem.message
    nearest = re.search(r"nearest that fits: --set (\S+)$", problem.message)
    assert isinstance(outcome(*MEGATRON, nearest[1]), Planned)


@pytest.mark.slow
def test_states_that_cannot_fit_are_refused_whatever_is_asked():
    settings = ("sharding_stage=0", "gradient_accumulation=1")
    refused = outcome("llama2_7b_pretrain_zero", "A100-SXM4-40GB:1x8", *settings, preflight=False)
    assert [problem.code for problem in refused.problems] == ["memory_too_small"]
    refused = outcome("llama2_7b_pretrain_zero", "A100-SXM4-40GB:1x8", *settings)
    assert refused.problems[0].message.endswith("nearest that fits: --set sharding_stage=2")


def test_the_refusal_can_be_overridden(ran):
    words = ["plan", MEGATRON[0], "--on", MEGATRON[1], "--set", "micro_batch=8"]
    assert call(words) == 2
    shown = ran(0, *words, "--no-preflight").out
    assert "memory of tensors" in shown
    assert "expected step" in shown


@pytest.mark.parametrize(("share", "noted"), [(1.1, True), (None, False)])
def test_a_run_that_may_not_fit_has_a_note_and_unknown_memory_none(share, noted):
    plan = outcome(*MEGATRON).plan
    memory = share and int(plan.memory[0].peak_bytes / share)
    devices = tuple(replace(device, memory_bytes=memory) for device in plan.probe.devices)
    (check,) = plan_checks(replace(plan, probe=replace(plan.probe, devices=devices)))
    assert [note.startswith("memory may not suffice: about ") for note in check.notes] == [True] * noted
    assert (check.problems, check.fits) == ((), not noted)


def test_settings_for_smaller_devices_plan_with_a_note():
    planned = outcome("baichuan2_13b_pretrain_zero", "A100-SXM4-40GB:1x8")
    assert isinstance(planned, Planned), planned.problems
    assert planned.plan.notes[-1].startswith("memory may not suffice")


def test_recomputed_activations_take_time_and_no_more_memory():  # nominal FLOPs leave them out
    base = ("llama1_7b_pretrain_paddle", "A100-SXM4-80GB:1x8")
    kept, recomputed = outcome(*base).plan, outcome(*base, "gradient_checkpointing=true").plan
    assert recomputed.expected_step_seconds > 1.2 * kept.expected_step_seconds
    assert recomputed.memory[0].peak_bytes < kept.memory[0].peak_bytes
    assert kept.slow_step_seconds == 10 * kept.expected_step_seconds
