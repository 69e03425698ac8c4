"""Notes in the result of an external script: how its times were made."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.runfolder.contents import RunRecords

MAX_DISAGREEMENT = 0.1
"""Share of the window by which the script's clock may differ from ours; lines that arrive late explain less."""
WINDOW = "the measured window, and so the throughput, is between the arrivals of its lines by llmperf's clock"


def script_notes(records: RunRecords) -> Iterator[str]:
    """How times were made, and whether the script's clock and ours disagree; nothing without a script."""
    script = records.plan.worker.script
    if script is None:
        return
    reporting = next((rank for rank in records.ranks if rank.rank == script.step_rank), None)
    if reporting is not None and reporting.step_clock == "line arrivals":
        yield (
            "losses and peak memory are what the external script printed; it printed no step times: these are the times"
            f" between its lines; {WINDOW}"
        )
        return
    yield f"step times, losses and peak memory are what the external script printed; {WINDOW}"
    window = reporting.window_seconds if reporting is not None else 0.0
    printed = sum(step.step_seconds for step in records.steps if step.rank == script.step_rank and step.measured)
    if window and abs(printed - window) > MAX_DISAGREEMENT * window:
        yield (
            f"the script's step times sum to {printed:.4g} s, its lines came over {window:.4g} s:"
            " one of the two is wrong; the throughput is from the latter"
        )
