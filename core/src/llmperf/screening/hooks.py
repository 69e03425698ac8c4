"""The core's own checks: matrix product and memory copy on the processors of a node."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from llmperf.hookspecs import hookimpl

if TYPE_CHECKING:
    from llmperf.types import ScreeningCheck

SECONDS = 0.5
"""Duration of each measurement after its warm-up."""
MATRIX = 1536
"""Rows and columns of the float32 matrices: 7.2 GFLOP for each product."""
COPIED_BYTES = 2**28
"""Larger than the caches of today's processors."""
MIN_RUNS = 5


@hookimpl
def llmperf_screening() -> Iterable[ScreeningCheck]:
    """Two checks that need NumPy only."""
    from llmperf.types import ScreeningCheck

    return [
        ScreeningCheck(name="host matrix product", unit="FLOP/s", scope="host", measure=matrix_product),
        ScreeningCheck(name="host memory copy", unit="B/s", scope="host", measure=memory_copy),
    ]


def median_seconds(run: Callable[[], object]) -> float:
    """Median duration of a call over SECONDS and at least MIN_RUNS calls, after one call that is not counted.

    The median shows a load that lasts, and leaves out single interruptions.
    """
    run()
    durations: list[float] = []
    began = time.monotonic()
    while len(durations) < MIN_RUNS or time.monotonic() - began < SECONDS:
        start = time.perf_counter()
        run()
        durations.append(time.perf_counter() - start)
    return statistics.median(durations)


def matrix_product() -> float:
    """FLOP/s of a float32 matrix product on all cores of this process."""
    import numpy as np

    left = np.full((MATRIX, MATRIX), 0.5, dtype=np.float32)
    out = np.empty_like(left)
    return 2 * MATRIX**3 / median_seconds(lambda: np.matmul(left, left, out=out))


def memory_copy() -> float:
    """Bytes per second that one thread reads and writes."""
    import numpy as np

    source = np.ones(COPIED_BYTES // 8, dtype=np.float64)
    target = np.empty_like(source)
    return 2 * COPIED_BYTES / median_seconds(lambda: np.copyto(target, source))
