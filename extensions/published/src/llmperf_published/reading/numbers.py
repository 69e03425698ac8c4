"""Printed numbers and the sums that cells write out: `2,868.5`, `43.0%`, `16.67 * 2048 / 8 = 4267 tokens/s`."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from llmperf_published.reading.cell_text import normal, withheld
from llmperf_published.reading.expressions import MAX_EXPRESSION, UNSIGNED, computed
from llmperf_published.types.document import Figure

MAX_NUMBER = 30
"""Characters of one number; more is no figure."""
NUMBER = rf"[+-]?{UNSIGNED}"
_MAGNITUDE = r"(?:(?:million|thousand)(?![a-z])|[km](?![a-z])|[km](?=tok)|百万|万|千)"
_FIGURE = re.compile(
    rf"(?:~|about|约)?\s*({NUMBER})\s*({_MAGNITUDE})?\s*(%|[A-Za-z/·.%\u4e00-\u9fff][^\d=*+]*)?", re.IGNORECASE
)
_HEADED = re.compile(rf"(?<![a-z\d])({_MAGNITUDE})\s*tok", re.IGNORECASE)
_FOOTNOTE = re.compile(r"\s*(?:[¹²³⁰⁴-⁹†‡§]+|\[\d{1,2}\]|\*+)$")
_REMARK = re.compile(r"(.*\d\s*%?)\s*\(([^()]*[^\W\d_][^()]*)\)")
_MAGNITUDES = {"k": 1e3, "thousand": 1e3, "千": 1e3, "万": 1e4, "m": 1e6, "million": 1e6, "百万": 1e6}
_LENGTH = re.compile(r"(\d[\d,]*)\s*(k)?\s*(?:tokens?)?", re.IGNORECASE)
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


def length(text: str) -> int | None:
    """The length of a sequence: `4096`, `4,096 tokens`; `4K` is 4096. None for anything else."""
    found = _LENGTH.fullmatch(text.strip())
    value = whole(found[1]) if found else None
    return value * 1024 if value and found and found[2] else value


def figure(text: str, header: str = "") -> Figure | None:
    """A cell's plain text as a figure: a number with or without a unit, or an expression with its outcome.

    `header`: that of its column, which may say that its numbers are percent or thousands of tokens. None for what is
    not understood; a figure without value for what is withheld.
    """
    if withheld(text):
        return Figure(text=text, value=None)
    if len(text) > 2 * MAX_EXPRESSION:
        return None
    header = normal(header[:400])
    words, percent = _without_remark(text), "%" in header or "percent" in header.lower()
    expression, _, outcome = words.rpartition("=")
    found = _FIGURE.fullmatch(outcome.strip())
    if found is None:
        return None if expression else _unfinished(text, words, header)
    unit = (found[3] or "").strip() or None
    value = number(found[1])
    if value is None or (unit is not None and len(unit) > 40) or (found[2] and unit == "%"):
        return None
    scale = _scale(found[2], unit, header, percent)
    return Figure(
        text=text,
        value=scaled(found[1], scale),
        printed=found[1].replace(",", ""),
        scale=scale,
        unit=unit or ("%" if percent else None),
        expression=expression.strip() or None,
        computed=_outcome(expression, scale, found[2]),
    )


def _without_remark(text: str) -> str:
    """A cell without a footnote's mark, and without a remark in brackets that is none of its unit."""
    words = normal(_FOOTNOTE.sub("", text))
    found = _REMARK.fullmatch(words)
    if found is None:
        return words
    return f"{found[1]} {found[2]}" if re.search(r"tok|/s", found[2], re.IGNORECASE) else found[1]


def _scale(magnitude: str | None, unit: str | None, header: str, percent: bool) -> float:
    """What printed digits are multiplied by: as the cell says, else as its column's header does."""
    if percent or unit == "%":
        return 0.01
    if magnitude:
        return _MAGNITUDES[magnitude.lower()]
    headed = _HEADED.search(header)
    return _MAGNITUDES[headed[1].lower()] if headed else 1.0


def _outcome(expression: str, scale: float, magnitude: str | None) -> float | None:
    """What the last part of a chain of equations gives, in printed units: of `... = 2.9k` in thousands."""
    value = computed(expression.rpartition("=")[2]) if expression else None
    return value / scale if value is not None and magnitude else value


def _unfinished(text: str, words: str, header: str) -> Figure | None:
    """An expression without its outcome; `1460-1480` is a range and none."""
    found = re.fullmatch(r"([\d\s.,*/+()]+?)\s*([A-Za-z/]*)", words)
    value = computed(found[1]) if found else None
    if found is None or value is None:
        return None
    scale, unit = _scale(None, found[2], header, False), found[2] or None
    return Figure(text=text, value=value * scale, scale=scale, unit=unit, expression=found[1], computed=value)


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
