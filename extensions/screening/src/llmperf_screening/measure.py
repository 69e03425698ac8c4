"""The process that measures on a node: `python -m llmperf_screening.measure` answers lines of JSON."""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator

from llmperf import convert, encode_pretty, every_answer
from llmperf.types import ScreeningCheck

from llmperf_screening.stages import CheckRequest, Figure

SECONDS = 0.5
"""Duration of each measurement after its warm-up."""
MATRIX = 1536
"""Rows and columns of the float32 matrices: 7.2 GFLOP for each product."""
COPIED_BYTES = 2**28
"""Larger than the caches of today's processors."""
MIN_RUNS = 5


def median_seconds(run: Callable[[], object]) -> float:
    """Median duration of a call over SECONDS and at least MIN_RUNS calls, after one call that is not counted."""
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


def checks() -> list[ScreeningCheck]:
    """Two checks of the host that need NumPy only, and those of every installed framework and extension by name."""
    own = [
        ScreeningCheck(name="host matrix product", unit="FLOP/s", scope="host", measure=matrix_product),
        ScreeningCheck(name="host memory copy", unit="B/s", scope="host", measure=memory_copy),
    ]
    others = [one for role in ("framework", "extension") for one in every_answer("llmperf_screening", role)]
    known: dict[tuple[str, str], ScreeningCheck] = {}
    for check in (*own, *(one for one in others if isinstance(one, ScreeningCheck))):
        known.setdefault((check.scope, check.name), check)
    return list(known.values())


def figures(known: list[ScreeningCheck], request: CheckRequest) -> Iterator[Figure]:
    """The figures of all checks of one scope; a check that raises gives a figure with the reason."""
    for check in known:
        if check.scope != request.scope:
            continue
        for device in request.devices if check.scope == "device" else (None,):
            arguments = {"host": (), "device": (device,), "pair": (request.pair,)}[check.scope]
            value, problem, timed_out = None, None, False
            try:
                value = float(check.measure(*arguments))
                if not (math.isfinite(value) and value >= 0):
                    value, problem = None, f"measured {value}"
            except Exception as error:  # of a plugin's library
                timed_out = isinstance(error, TimeoutError)
                lines = str(error).strip().splitlines()
                problem = f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
            yield Figure(
                check=check.name,
                unit=check.unit,
                device=device,
                value=value,
                problem=problem,
                timed_out=timed_out,
                tolerance=check.tolerance,
            )


def main() -> None:
    """Answer each line of standard input with one line."""
    output = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    known = checks()
    for line in sys.stdin.buffer:
        request = convert(json.loads(line), CheckRequest, "request of the node program")
        os.write(output, encode_pretty(tuple(figures(known, request)), indent=0))


if __name__ == "__main__":
    main()
