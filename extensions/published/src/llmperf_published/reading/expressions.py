"""The sums that cells write out: what they give, and of which factors they are made."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

MAX_EXPRESSION = 200
"""Characters of an expression that is computed."""
UNSIGNED = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d{1,2})?"
_TOKEN = re.compile(rf"\s*(?:({UNSIGNED})|([-+*/()x]))")
_COUNTED = (
    r"(?:samples?|seqs?|sequences?|sentences?|tokens?|toks?|steps?|iters?|its?|gpus?|cards?|devices?|ranks?|nodes?"
    r"|样本|卡|步|条)"
)
_UNITS = re.compile(
    rf"(?<=[\d)])\s*(?:{_COUNTED}(?:/{_COUNTED})?(?:/(?:s|secs?|seconds?|秒|p))*|secs?|seconds?|s|秒)(?![A-Za-z/])",
    re.IGNORECASE,
)
"""Words behind a number that say what it counts: 11.36 seq/s."""
SLACK = 1e-3
"""Relative; by how much a part of a chain may differ from the one before it, of which only some digits are printed."""


@dataclass(frozen=True, slots=True)
class Factors:
    """A product of numbers, of which some divide."""

    multiplied: tuple[float, ...]
    divided: tuple[float, ...]


def computed(expression: str) -> float | None:
    """The value of numbers with + - * / and brackets; None for anything else, and for none that is finite."""
    if len(expression) > MAX_EXPRESSION:
        return None
    try:
        parts = list(_tokens(_UNITS.sub("", expression)))
        value, rest = _sum(parts, 0)
    except (ValueError, IndexError, ZeroDivisionError, OverflowError):
        return None
    return value if rest == len(parts) and math.isfinite(value) else None


def sequence_length(expression: str, devices: int | None) -> int | None:
    """Of `16.67 * 2048 / 8` on 8 devices the length of a sequence; None where it is not that, or not clear."""
    found = factors(expression)
    if found is None or len(found.multiplied) != 2 or found.divided != (devices,):
        return None
    whole = [int(one) for one in found.multiplied if one.is_integer()]
    return whole[-1] if whole else None


def broken_link(chain: str) -> tuple[str, str] | None:
    """The first two parts of `a = b = c` that are not equal; None where all are, or cannot be computed.

    Of `11.36 * 2048 = 23265 / 8` the second may go on from the value of the first.
    """
    parts = [part.strip() for part in chain[: 4 * MAX_EXPRESSION].split("=")]
    for left, right in pairwise(parts):
        value, taken = computed(left), computed(right)
        begun = re.match(rf"\s*\(?\s*({UNSIGNED})", right)
        if value is None or taken is None:
            continue
        onward = computed(begun[1]) if begun else None
        if not any(one is not None and math.isclose(value, one, rel_tol=SLACK) for one in (taken, onward)):
            return left, right
    return None


def factors(chain: str) -> Factors | None:
    """The factors of a chain's first part, with what its later parts divide by; None for what is no product."""
    first, *later = chain[: 4 * MAX_EXPRESSION].split("=")
    found = _product_of(first)
    more = [_product_of(part) for part in later]
    if found is None or None in more:
        return None
    divided = tuple(value for one in more if one is not None for value in one.divided if value not in found.divided)
    return Factors(found.multiplied, found.divided + divided)


def _product_of(expression: str) -> Factors | None:
    if len(expression) > MAX_EXPRESSION or computed(expression) is None:
        return None
    multiplied: list[float] = []
    divided: list[float] = []
    signs, before = [True], "*"
    for part in _tokens(_UNITS.sub("", expression)):
        if part in "+-":
            return None
        if part == "(":
            signs.append(signs[-1] if before != "/" else not signs[-1])
        elif part == ")":
            signs.pop()
        elif part not in "*/":
            (multiplied if signs[-1] == (before != "/") else divided).append(float(part))
        before = part
    return Factors(tuple(multiplied), tuple(divided))


def _tokens(expression: str) -> Iterator[str]:
    position, text = 0, expression.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(text[position])
        yield (found[1] or found[2]).replace(",", "").replace("x", "*")
        position = found.end()


def _sum(parts: list[str], at: int) -> tuple[float, int]:
    value, at = _product(parts, at)
    while at < len(parts) and parts[at] in "+-":
        other, after = _product(parts, at + 1)
        value, at = (value + other if parts[at] == "+" else value - other), after
    return value, at


def _product(parts: list[str], at: int) -> tuple[float, int]:
    value, at = _factor(parts, at)
    while at < len(parts) and parts[at] in "*/":
        other, after = _factor(parts, at + 1)
        value, at = (value * other if parts[at] == "*" else value / other), after
    return value, at


def _factor(parts: list[str], at: int) -> tuple[float, int]:
    if parts[at] != "(":
        return float(parts[at]), at + 1
    value, at = _sum(parts, at + 1)
    if parts[at] != ")":
        raise ValueError(parts[at])
    return value, at + 1
