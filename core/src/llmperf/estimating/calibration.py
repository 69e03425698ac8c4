"""What was fitted to published figures, and how far estimates were from them: `data/estimate_calibration.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from llmperf.files.json_files import convert
from llmperf.files.user_files import read_toml
from llmperf.types.estimate import ExpectedError
from llmperf.types.units import NonNegative

FILE = Path(__file__).parents[1] / "data" / "estimate_calibration.toml"


Efficiency = Annotated[float, msgspec.Meta(gt=0, le=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The content of the file."""

    fragmentation: NonNegative
    """Memory that an allocator holds beyond the peak of tensors, as a share of it."""
    fragmentation_source: str
    """What it was fitted to."""
    efficiency: Mapping[Literal["fake tensors", "analytic"], Efficiency]
    """Speed of published runs as a share of what the roofline, the links and the schedule allow, by the method of the
    trace: formulas leave out small operations."""
    efficiency_source: str
    """What it was fitted to."""
    error: ExpectedError
    """Of estimates with it."""


@cache
def calibration() -> Calibration:
    """The calibration of this version."""
    return convert(read_toml(FILE), Calibration, str(FILE))
