"""One GPU as any of AMD's interfaces shows it, and the numbers they show, believed where they can be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NOT_SHOWN = (0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
"""What a driver's table holds where a sensor is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What is known of it now; None is what is not shown."""

    index: int
    """As the interface counts."""
    model: str | None
    """Market name."""
    uuid: str | None = None
    """Of the GPU."""
    driver: str | None = None
    """Version."""
    memory_used_bytes: int | None = None
    """By all processes."""
    memory_total_bytes: int | None = None
    """Of the GPU."""
    utilisation_percent: float | None = None
    """Of the compute units."""
    power_watts: float | None = None
    """Of the package."""
    temperature_celsius: float | None = None
    """Of the hottest spot, else of the edge."""
    energy_joules: float | None = None
    """Since the driver was loaded."""
    details: Mapping[str, str] = field(default_factory=dict)
    """What else there is."""


def number(value: Any, most: float = math.inf) -> float | None:
    """A number, its text, or `{"value": ...}`; None for anything else, for a missing sensor and beyond the limits."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, bool) or not isinstance(value, (int, float, str)) or value in NOT_SHOWN:
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and 0 <= found <= most else None


def first(*values: float | None) -> float | None:
    """The first that is known."""
    return next((one for one in values if one is not None), None)


def text(value: Any) -> str | None:
    """A name; None for what an interface shows where it has none."""
    if not isinstance(value, str) or value.strip() in ("", "N/A"):
        return None
    return "".join(one if one.isprintable() else "?" for one in value.strip())[:80]


def memory(used: float | None, total: float | None, unit: int) -> tuple[int | None, int | None]:
    """Used and total in bytes; both None where more is used than there is."""
    if used is not None and total is not None and used > total:
        return None, None
    return None if used is None else int(used * unit), None if not total else int(total * unit)
