"""The case that a framework trains in the kit: drawn from a seed, and fed with tokens that nobody knows before."""

import time

import numpy as np
import pytest
from llmperf_testing.drawn_case import LateTokens, drawn_case
from llmperf_testing.framework import FrameworkSubject
from llmperf_testing.programs.rank import Stopwatch, functions, replaced_since


def test_a_seed_repeats_the_case_and_another_draws_another():
    assert drawn_case(7) == drawn_case(7)
    assert len({drawn_case(seed).settings for seed in range(50)}) == 50
    assert len({drawn_case(seed).model for seed in range(50)}) > 20


@pytest.fixture(scope="module")
def subject():
    with FrameworkSubject("pytorch", seed=7, settings=("seq_len=16",)) as subject:
        yield subject


@pytest.mark.slow
def test_frameworks_train_the_drawn_contract_and_settings_replace_it(subject):
    spec, drawn = subject.draft.spec, dict(setting.split("=", 1) for setting in subject.drawn.settings)
    assert spec.model.name == subject.drawn.model_name
    assert (spec.contract.dataset, spec.contract.seed) == (drawn["dataset"], int(drawn["seed"]))
    assert (spec.contract.steps, spec.contract.seq_len) == (int(drawn["steps"]), 16)
    assert subject.draft.problems == ()


@pytest.mark.slow
def test_tokens_are_the_plans_until_the_kit_draws_them(subject):
    plan = subject.plan()
    late, rows = LateTokens(seed=3, first_step=4), np.full((2, 9), 300)
    micro_steps = plan.batch.gradient_accumulation
    assert (late.micro_batch(plan, 0, 3 * micro_steps - 1, rows) == rows).all()
    drawn = late.micro_batch(plan, 0, 3 * micro_steps, rows)
    assert drawn.shape == rows.shape
    assert drawn.max() < 24
    assert (drawn == late.micro_batch(plan, 0, 3 * micro_steps, rows)).all()
    assert (drawn != late.micro_batch(plan, 1, 3 * micro_steps, rows)).any()
    assert (drawn != late.micro_batch(plan, 0, 3 * micro_steps + 1, rows)).any()


class Host:
    """A device that does nothing."""

    def synchronize(self):
        pass

    def event(self):
        from llmperf_cpu.device import HostEvent

        return HostEvent()


@pytest.mark.slow
def test_a_clock_that_was_slowed_disagrees_with_the_times_of_files(tmp_path, monkeypatch):
    clock, began = time.monotonic, time.monotonic()
    stopwatch = Stopwatch.begin(Host(), tmp_path / "clock")
    monkeypatch.setattr(time, "monotonic", lambda: began + 0.75 * (clock() - began))
    timed = {one.name: one for one in stopwatch.end()}
    slow, fine = timed["time.monotonic()"], timed["time.perf_counter()"]
    assert slow.most_seconds < 0.9 * slow.seconds
    assert fine.least_seconds - 0.02 < fine.seconds < fine.most_seconds + 0.02


def test_functions_that_are_replaced_are_named(monkeypatch):
    from llmperf.runfolder.reader import Recorder

    before = functions()
    assert replaced_since(before) == ()
    monkeypatch.setattr(Recorder, "write", print)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert replaced_since(before) == ("llmperf.runfolder.reader.Recorder.write", "time.time")
