"""Printed numbers and the sums that cells write out: `2,868.5`, `43.0%`, `16.67 * 2048 / 8 = 4267 tokens/s`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal

from llmperf.importing.cell_text import normal, withheld
from llmperf.types.published import Figure

MAX_EXPRESSION = 200
"""Characters of an expression that is computed."""
MAX_NUMBER = 30
"""Characters of one number; more is no figure."""
NUMBER = r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d{1,2})?"
_FIGURE = re.compile(rf"(?:~|about|约)?\s*({NUMBER})\s*(%|[A-Za-z/·.%\u4e00-\u9fff][^\d=*+]*)?", re.IGNORECASE)
_TOKEN = re.compile(rf"\s*(?:({NUMBER.removeprefix('[+-]?')})|([-+*/()x]))")
_SCALES = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12, "%": 0.01}


def number(digits: str) -> float | None:
    """The value of printed digits, thousands grouped or not; None for none that is finite."""
    if len(digits) > MAX_NUMBER:
        return None
    value = float(digits.replace(",", ""))
    return value if math.isfinite(value) else None


def scaled(digits: str, scale: float) -> float:
    """Printed digits times a power of ten, exactly: 36.1 x 0.01 is 0.361."""
    return float(Decimal(digits.replace(",", "")) * Decimal(repr(scale)))


def whole(text: str) -> int | None:
    """A positive whole number, thousands grouped or not; None for anything else."""
    found = re.fullmatch(r"\d{1,3}(?:,\d{3})+|\d{1,15}", text.strip())
    value = int(found[0].replace(",", "")) if found else 0
    return value or None


def figure(text: str, percent: bool = False) -> Figure | None:
    """A cell's plain text as a figure: a number with or without a unit, or an expression with its outcome.

    `percent`: the column says that its numbers are percent. None for what is not understood; a figure without value
    for what is withheld.
    """
    if withheld(text):
        return Figure(text=text, value=None)
    if len(text) > 2 * MAX_EXPRESSION:
        return None
    expression, _, outcome = normal(text).rpartition("=")
    found = _FIGURE.fullmatch(outcome.strip())
    if found is None:
        return None if expression else _unfinished(text)
    unit = (found[2] or "").strip() or None
    value = number(found[1])
    if value is None or (unit is not None and len(unit) > 40):
        return None
    scale = 0.01 if percent or unit == "%" else 1.0
    return Figure(
        text=text,
        value=scaled(found[1], scale),
        printed=found[1].replace(",", ""),
        scale=scale,
        unit=unit or ("%" if percent else None),
        expression=expression.strip() or None,
        computed=computed(expression.rpartition("=")[2]) if expression else None,
    )


def _unfinished(text: str) -> Figure | None:
    """An expression without its outcome."""
    found = re.fullmatch(r"([\d\s.,*/+()-]+?)\s*([A-Za-z/]*)", normal(text))
    value = computed(found[1]) if found else None
    if found is None or value is None:
        return None
    return Figure(text=text, value=value, unit=found[2] or None, expression=found[1], computed=value)


def amount(text: str) -> Figure | None:
    """A count that may be given in thousands or millions: `1024`, `4M tokens`. None for what is not understood."""
    if len(text) > MAX_EXPRESSION:
        return None
    found = re.fullmatch(rf"\s*({NUMBER})\s*([kKmMgGbBtT](?![A-Za-z]))?\s*([A-Za-z]*)\s*", normal(text))
    value = number(found[1]) if found else None
    if found is None or value is None:
        return None
    scale = _SCALES[found[2].lower()] if found[2] else 1.0
    digits = found[1].replace(",", "")
    return Figure(text=text.strip(), value=scaled(digits, scale), printed=digits, scale=scale, unit=found[3] or None)


def computed(expression: str) -> float | None:
    """The value of numbers with + - * / and brackets; None for anything else, and for none that is finite."""
    if len(expression) > MAX_EXPRESSION:
        return None
    try:
        parts = list(_tokens(expression))
        value, rest = _sum(parts, 0)
    except (ValueError, IndexError, ZeroDivisionError, OverflowError):
        return None
    return value if rest == len(parts) and math.isfinite(value) else None


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
