"""What a reader of a result should know where an external script trained."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.runfolder.contents import RunRecords

MAX_DISAGREEMENT = 0.1
"""Of the window: more than lines that come late can explain."""


def script_notes(records: RunRecords) -> Iterator[str]:
    """How the times were made, and whether the script's clock and ours grossly disagree; nothing without a script."""
    script = records.plan.script
    if script is None:
        return
    yield (
        "step times, losses and peak memory are what the external script printed; the measured window, and so the"
        " throughput, is between the arrivals of its lines by llmperf's clock"
    )
    window = next((one.window_seconds for one in records.ranks if one.rank == script.step_rank), 0.0)
    printed = sum(one.step_seconds for one in records.steps if one.rank == script.step_rank and one.measured)
    if window and abs(printed - window) > MAX_DISAGREEMENT * window:
        yield (
            f"the script's step times sum to {printed:.4g} s, its lines came over {window:.4g} s:"
            " one of the two is wrong; the throughput is from the latter"
        )
