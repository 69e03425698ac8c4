"""Numbers that options take: neither nan nor infinite, which no comparison would fail."""

from __future__ import annotations

import math
from typing import Any

import click


class Finite(click.FloatRange):
    """A finite number in a range."""

    what = "finite number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; click's error if it is none or not in the range."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no {self.what}.", param, ctx)
        return number


class Seconds(Finite):
    """A number of seconds, of one at least."""

    what = "number of seconds"

    def __init__(self) -> None:
        super().__init__(min=1)
