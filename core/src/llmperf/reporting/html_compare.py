"""What two runs of the HTML report are held against each other by: contract, setting, figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmperf.documents import builtins
from llmperf.reporting import cells
from llmperf.reporting.comparison import FIGURES
from llmperf.types import Result

DESCRIPTIONS = ("title", "source")
"""Parts of a model that only describe it."""
MFU = "MFU (nominal)"
"""The one figure that is shown as percent."""
MEMORY = ("memory of a rank, GiB", "memory of a device, GiB")
"""Figures that a published row and a measured run understand differently."""

Figures = Sequence[tuple[float | None, str]]
"""For each of FIGURES the number and what is shown of it."""


def contract_parts(result: Result) -> dict[str, str]:
    """The contract and the facts of the model by path: two differ in what `results.alignment.unlike` says."""
    facts = {name: value for name, value in builtins(result.model).items() if name not in DESCRIPTIONS}
    return {**dict(_flat("", builtins(result.contract))), **dict(_flat("model.", facts))}


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
    return [(value, cells.percent(value) if name == MFU else cells.significant(value)) for name, value in found]


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each scalar by its path, as text."""
    for name, one in value.items():
        if isinstance(one, Mapping):
            yield from _flat(f"{prefix}{name}.", one)
        else:
            yield prefix + name, _scalar(one)


def _scalar(value: Any) -> str:
    """Equal values give equal text, whole numbers however they are typed; nothing is cut off."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    text = cells.text(whole)
    return cells.printable(text, len(text))
