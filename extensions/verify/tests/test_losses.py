"""Loss curves that no training gives."""

import math
import random

import pytest
from llmperf.files.json_files import convert
from llmperf.types import Result
from llmperf.validation.check import findings

CODES = {"LP506", "LP507", "LP509", "LP510", "LP512", "LP513"}
GUESS = math.log(4096)


def told(example, losses, *, lr=1e-3, tokens=1024, **contract):
    example["loss_curve"] = [
        {"step": step, "loss": loss, "nonfinite": None, "grad_norm": None} for step, loss in enumerate(losses, start=1)
    ]
    example["metrics"] |= {"first_loss": losses[0], "final_loss": losses[-1]}
    example["contract"] |= {"steps": len(losses), **contract}
    example["contract"]["optimizer"]["lr"] = lr
    example["batch"]["tokens_per_step"] = tokens
    return {one.code for one in findings("result", convert(example, Result, "result"))} & CODES


def scattered(level, steps, spread=0.01):
    draws = random.Random(steps)
    return [level + draws.gauss(0, spread) for _ in range(steps)]


REAL = [
    ([8.362, 8.383, 8.331, 8.331, 8.310, 8.349, 8.216, 8.229, 8.210, 8.168, 8.129, 8.292], {}),
    ([8.362, 8.371, 8.366], {}),
    ([8.362], {}),
    (scattered(8.369, 10), {"lr": 1.5e-4}),  # a warm-up of the learning rate, not through after ten steps
    (scattered(8.369, 400), {"lr": 1e-9}),
    (scattered(8.369, 100), {"lr": 1e-4, "lora": {"rank": 8}}),  # B begins at 0
    (scattered(GUESS, 40, 6e-4), {"lr": 1e-9, "tokens": 4_194_304}),
    ([8.37, 8.36, 8.36, 8.36, 8.35, 8.35, 8.35, 8.34], {"lr": 1e-5}),  # as a script prints them
    ([8.37, 8.9, 8.6, 8.3, 8.2, 8.1, 8.0, 7.9], {}),
    ([2.31, 2.30, 2.33, 2.29, 2.28], {"lora": {"rank": 8}}),
]
NO_TRAINING = [
    ([8.2] * 8, {"lr": 1e-9}, {"LP509"}),
    ([8.2, 8.123456, 8.1, *[8.123456] * 5], {"lr": 1e-9}, {"LP509"}),
    ([8.362, *[GUESS + 1e-6 * step for step in range(29)]], {"lr": 1e30}, {"LP510"}),
    ([8.362, *[GUESS] * 29], {"lr": 1e30}, {"LP509", "LP510"}),
    (scattered(8.369, 30), {}, {"LP513"}),
    (scattered(10.0, 30), {"precision": "fp32"}, {"LP513"}),
    ([8.362, 8.6, 8.9, 9.2, 9.4, 9.5, 9.6, 9.6], {}, {"LP512"}),
    ([8.362, 45.3, 45.4, 61.4, 111.9, 102.9, 98.3, 99.2], {"lr": 1.0}, {"LP506", "LP507", "LP512"}),
]


@pytest.mark.parametrize(("losses", "settings", "expected"), [*((*real, set()) for real in REAL), *NO_TRAINING])
def test_a_curve_that_no_training_gives_is_a_finding_and_a_real_one_is_none(example, losses, settings, expected):
    assert told(example, losses, **settings) == expected


def test_a_run_that_failed_is_not_asked_for_its_curve(example):
    example["status"] = "failed"
    assert told(example, [8.2] * 8) == set()


def thinned(example, steps, *, every=4, contract_steps=20_002):
    """The messages of LP505 for a curve with these steps."""
    example["loss_curve"] = [
        {"step": step, "loss": 8.0 - step / 10_000, "nonfinite": None, "grad_norm": None} for step in steps
    ]
    example["loss_curve_every"] = every
    example["contract"]["steps"] = contract_steps
    return [one.message for one in findings("result", convert(example, Result, "result")) if one.code == "LP505"]


EVEN = [*range(1, 20_003, 4), 20_002]
WHOLE = "expected 10000 points (contract.steps)"


@pytest.mark.parametrize(
    ("steps", "settings", "messages"),
    [
        (EVEN, {}, []),
        (EVEN[:7] + EVEN[8:], {}, ["expected one step in 4 and the last, found no step 29"]),
        (EVEN[:-1], {}, ["expected one step in 4 and the last, found no step 20002"]),
        (sorted([*EVEN, 30]), {}, ["expected one step in 4, found step 30"]),
        (EVEN, {"every": 2}, ["expected 4 (of 20002 steps), found 2"]),
        (range(1, 10_001), {"every": 1, "contract_steps": 10_000}, []),
        (range(1, 10_000), {"every": 1, "contract_steps": 10_000}, [f"{WHOLE}, found 9999"]),
        (range(1, 10_001, 2), {"every": 2, "contract_steps": 10_000}, ["expected 1 (of 10000 steps), found 2"]),
    ],
)
def test_a_long_curve_has_even_steps(example, steps, settings, messages):
    assert thinned(example, steps, **settings) == messages
