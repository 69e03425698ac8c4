"""The learning rate, step by step."""

import pytest
from llmperf import learning_rate
from llmperf.types import Optimizer


def rates(steps=10, **settings):
    optimizer = Optimizer(lr=1.0, **settings)
    return [learning_rate(optimizer, step, steps) for step in range(1, steps + 1)]


def test_warm_up_is_linear_and_its_last_step_has_the_whole_rate():
    assert rates() == [1.0] * 10
    assert rates(warmup_steps=4)[:6] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert rates(steps=2, warmup_steps=4, schedule="cosine") == [0.25, 0.5]


def test_cosine_falls_from_lr_towards_min_lr():
    found = rates(steps=12, schedule="cosine", warmup_steps=2, min_lr=0.1)
    assert found[2] == 1.0
    assert found[7] == pytest.approx(0.55)
    assert found[2:] == sorted(found[2:], reverse=True)
    assert found[-1] > 0.1
    assert learning_rate(Optimizer(lr=1.0, schedule="cosine", min_lr=0.1), 99, 12) == pytest.approx(0.1)
