"""How a framework trains, step by step: when it draws data, whether clocks and events run as they should."""

from __future__ import annotations

from collections import Counter

from llmperf_testing.check import Skip, require
from llmperf_testing.checks.training import builds_again_from_the_plan, ends_of, run_ends_complete
from llmperf_testing.framework import FrameworkSubject
from llmperf_testing.observations import Draw

STEPS_AHEAD = 1
"""Data may be drawn so many steps before the step that trains on them."""
RATE_SHARE = 0.02
RATE_SECONDS = 0.012
"""By so much clocks may differ: the kernel stamps files to a hundredth of a second."""
WINDOW_SHARE, WINDOW_SECONDS = 0.02, 0.02
"""By so much the measured window may be longer than the steps in it."""


def data_are_drawn_in_their_step(subject: FrameworkSubject) -> None:
    """Each micro batch is drawn once, in its step or the one before, by a rank of each data-parallel group."""
    subject.rests_on(builds_again_from_the_plan)
    ends = ends_of(subject)
    batch, contract = subject.trained.plan.batch, subject.trained.plan.spec.contract
    drew = set()
    for one in ends.ranks:
        counted = Counter(draw.index for draw in one.draws)
        again = next((index for index, times in counted.items() if times > 1), None)
        require(again is None, f"rank {one.rank} drew micro batch {again} {counted[again or 0]} times")
        for draw in one.draws:
            _require_in_its_step(one.rank, draw, batch.gradient_accumulation)
        if len(one.draws) >= contract.steps * batch.gradient_accumulation:
            drew.add(subject.trained.plan.layout.data_parallel_rank(one.rank))
    missing = sorted(set(range(batch.data_parallel)) - drew)
    each = contract.steps * batch.gradient_accumulation
    require(not missing, f"no rank of data-parallel ranks {missing} drew all {each} micro batches in its own process")


def _require_in_its_step(rank: int, draw: Draw, micro_steps: int) -> None:
    due = draw.index // micro_steps + 1
    when = f"in step {draw.step}" if draw.step else "while the trainer was built"
    within = due - STEPS_AHEAD <= draw.step <= due
    require(within, f"rank {rank} drew micro batch {draw.index} {when}; expected step {due}, or the one before")


def clocks_run_at_their_rate(subject: FrameworkSubject) -> None:
    """In the ranks, the clocks agree with the times that the kernel gives files, and events with the clock, to 2 %."""
    subject.rests_on(builds_again_from_the_plan)
    ends = ends_of(subject)
    if ends.clock_was_set:
        raise Skip("the host's clock was set in the meantime")
    for one in ends.ranks:
        for timed in one.clocks:
            slack = RATE_SECONDS + RATE_SHARE * timed.most_seconds
            near = timed.least_seconds - slack < timed.seconds < timed.most_seconds + slack
            other = "the host's clock" if timed.name.startswith("events") else timed.name
            told = "events of the device" if timed.name.startswith("events") else "files"
            found = f"{told} say {timed.seconds:.3f} s, {other} {timed.least_seconds:.3f} to {timed.most_seconds:.3f} s"
            require(near, f"rank {one.rank}: {found}")


def functions_of_the_core_stay(subject: FrameworkSubject) -> None:
    """It replaces no function of llmperf and no clock in the ranks."""
    subject.rests_on(builds_again_from_the_plan)
    for one in ends_of(subject).ranks:
        names = ", ".join(one.replaced[:3])
        require(not one.replaced, f"rank {one.rank}: {names} {'is' if len(one.replaced) == 1 else 'are'} replaced")


def steps_fill_the_window(subject: FrameworkSubject) -> None:
    """The measured steps are together as long as the measured window."""
    subject.rests_on(run_ends_complete)
    result = subject.trained.result
    window = result.metrics.window_seconds if result.metrics else None
    steps = [
        max(one.step_seconds for one in records) for records in subject.trained.steps.values() if records[0].measured
    ]
    if window is None:
        raise Skip("the run has no measured window")
    total = sum(steps)
    near = total > window * (1 - WINDOW_SHARE) - WINDOW_SECONDS
    require(near, f"{len(steps)} steps of {total:.4f} s in a window of {window:.4f} s")


WATCHED = (data_are_drawn_in_their_step, clocks_run_at_their_rate, functions_of_the_core_stay, steps_fill_the_window)
