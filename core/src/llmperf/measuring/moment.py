"""One moment by both clocks of a host."""

from __future__ import annotations

import time
from typing import NamedTuple


class Moment(NamedTuple):
    """The wall clock says when a thing happened, and may be set at any time; intervals come from the monotonic one."""

    at: float
    """Seconds since the epoch."""
    monotonic: float
    """Seconds of CLOCK_MONOTONIC, which all processes of a host share."""

    @classmethod
    def now(cls) -> Moment:
        """This moment."""
        return cls(time.time(), time.monotonic())

    def earlier(self, seconds: float) -> Moment:
        """The moment that lies so many seconds before this one; no clock has one before its 0."""
        return Moment(max(0.0, self.at - seconds), max(0.0, self.monotonic - seconds))
