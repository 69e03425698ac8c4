"""Bounded numbers: the limits of fields, in schemas and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any


class Minimum:
    """An inclusive lower bound."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value


class Below:
    """An exclusive upper bound. Settings are checked against it; the schemas leave it out."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value


class Pattern:
    """A regular expression that a text matches as a whole. The schemas have it."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value


Digest = Annotated[str, Pattern("^[0-9a-f]{64}$")]
"""SHA-256 in hexadecimal digits."""
Count = Annotated[int, Minimum(0)]
Positive = Annotated[int, Minimum(1)]
NonNegative = Annotated[float, Minimum(0)]
Decay = Annotated[float, Minimum(0), Below(1)]
Skew = Annotated[float, Minimum(0), Below(10)]
if TYPE_CHECKING:
    Stated = int
else:
    Stated = Positive | None
"""A whole number that only counted models may leave out. Type checkers see `int`: code that reads it refuses those."""
NOT_STATED: Any = None
