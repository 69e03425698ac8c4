"""What two runs of the HTML report are held against each other by: setting and figures."""

from __future__ import annotations

from collections.abc import Sequence

from llmperf.reporting import cells
from llmperf.reporting.comparison import FIGURES, shown
from llmperf.types import Result

MEMORY = ("memory of a rank, GiB", "memory of a device, GiB")
"""Figures that a published row and a measured run understand differently."""

Figures = Sequence[tuple[float | None, str]]
"""For each of FIGURES the number and what is shown of it."""


def setting_parts(result: Result) -> dict[str, str]:
    """What may differ between two runs of one contract, and explains why their figures do."""
    hardware = result.hardware
    return {
        "device": cells.printable(f"{hardware.device_model}{' (simulated)' * hardware.simulated}"),
        "nodes x devices": f"{hardware.nodes} x {hardware.devices_per_node}",
        "share of a device per rank": cells.percent(hardware.device_share),
        "framework": cells.printable(result.tuning.framework),
        "layout": cells.layout(result.parallelism),
    }


def figures(result: Result) -> Figures:
    """As `llmperf compare` shows them; a share as percent."""
    found = [(name, figure(result)) for name, figure in FIGURES.items()]
    return [(value, shown(name, value)) for name, value in found]
