"""The stopwatch of single operations: repeats between device events, and their quartiles."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise

from llmperf.errors import PluginError
from llmperf.types.devices import Device
from llmperf.types.limits import OperationToTime, PreparedOperation, TimedOperation, TimedOperations

FEWEST_RUNS, MOST_RUNS = 5, 200
FEWEST_LONG_RUNS, LONG_SECONDS = 3, 0.4
"""Repeats of an operation that takes longer than that."""
MAX_PROBLEM = 200
"""Characters of what is wrong with an output."""


def timed(
    operation: OperationToTime,
    prepared: PreparedOperation,
    operations: TimedOperations,
    device: Device,
    seconds: float,
    ranks: int,
) -> TimedOperation:
    """Repeat an operation for about `seconds` on all ranks at the same time, then check its output.

    The first run, which may compile or allocate, does not count. The device does not wait for the host between runs.
    """
    prepared.run()
    device.synchronize()
    operations.agree(0.0)
    start = time.perf_counter()
    prepared.run()
    device.synchronize()
    expected = operations.agree(time.perf_counter() - start)
    fewest = FEWEST_RUNS if expected < LONG_SECONDS else FEWEST_LONG_RUNS
    runs = min(max(fewest, round(seconds / max(expected, 1e-9))), MOST_RUNS)
    marks = [device.event()]
    for _ in range(runs):
        prepared.run()
        marks.append(device.event())
    device.synchronize()
    durations = [max(0.0, end.seconds_since(begin)) for begin, end in pairwise(marks)]
    low, median, high = statistics.quantiles(durations, n=4)
    return TimedOperation(
        operation=operation,
        ranks=ranks,
        runs=runs,
        median_seconds=median,
        low_seconds=low,
        high_seconds=high,
        problem=_problem(prepared),
    )


def _problem(prepared: PreparedOperation) -> str | None:
    answer: object = prepared.check()
    if answer is None:
        return None
    if not isinstance(answer, str) or not answer.strip():
        raise PluginError(f"check() of a timed operation: expected a text or None, found {answer!r:.80}")
    return answer.splitlines()[0][:MAX_PROBLEM]
