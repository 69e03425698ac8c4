"""Bounded numbers: what the schemas say of a field beyond its type."""

from __future__ import annotations

from typing import Annotated


class Minimum:
    """An inclusive lower bound."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value


class Below:
    """An exclusive upper bound; settings are held to it, the schemas do not tell it."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value


Count = Annotated[int, Minimum(0)]
Positive = Annotated[int, Minimum(1)]
NonNegative = Annotated[float, Minimum(0)]
Decay = Annotated[float, Minimum(0), Below(1)]
