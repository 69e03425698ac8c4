"""Printed numbers and arithmetic expressions: `2,868.5`, `43.0%`, `16.67 * 2048 / 8 = 4267 tokens/s`.

Expressions are parsed by `ast`, of whose trees only numbers and the four operations are computed.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

from llmperf_published.reading.markdown import normal, withheld
from llmperf_published.types.row import Figure

MAX_EXPRESSION = 200
"""Longest expression that is computed, in characters."""
MAX_NUMBER = 30
"""Longest number that is read, in characters."""

_UNSIGNED = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d{1,2})?"
NUMBER = rf"[+-]?{_UNSIGNED}"
_MAGNITUDE = r"(?:(?:million|thousand)(?![a-z])|[km](?![a-z])|[km](?=tok)|百万|万|千)"
_MAGNITUDES = {"k": 1e3, "thousand": 1e3, "千": 1e3, "万": 1e4, "m": 1e6, "million": 1e6, "百万": 1e6}
_FIGURE = re.compile(
    rf"(?:~|about|约)?\s*({NUMBER})\s*({_MAGNITUDE})?\s*(%|[A-Za-z/·.%\u4e00-\u9fff][^\d=*+]*)?", re.IGNORECASE
)
_HEADED = re.compile(rf"(?<![a-z\d])({_MAGNITUDE})\s*tok", re.IGNORECASE)
_SPACED = re.compile(r"\d{1,3}(?: \d{3})+(?![\d.]*\d\s*[-+*x/])(?!\d)")
"""Thousands that spaces separate."""
_FOOTNOTE = re.compile(r"\s*(?:[¹²³⁰⁴-⁹†‡§]+|\[\d{1,2}\]|\[\^[\w.-]{1,60}\]|\*+)$")
_REMARK = re.compile(r"(.*\d\s*%?)\s*\(([^()]*[^\W\d_][^()]*)\)")
_LENGTH = re.compile(r"(\d[\d,]*)\s*(k)?\s*(?:tokens?)?", re.IGNORECASE)

_TOKEN = re.compile(rf"\s*(?:({_UNSIGNED})|([-+*/()x]))")
_PRODUCT = re.compile(rf"\s*\(?\s*({_UNSIGNED})\s*[*x]\s*({_UNSIGNED})\s*\)?\s*(?:=[^/]*)?/\s*(\d+)\s*(?:=|$)")
_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COUNTED = (
    r"(?:samples?|seqs?|sequences?|sentences?|tokens?|toks?|steps?|iters?|its?|gpus?|cards?|devices?|ranks?|nodes?"
    r"|样本|卡|步|条)"
)
_UNITS = re.compile(
    rf"(?<=[\d)])\s*(?:{_COUNTED}(?:/{_COUNTED})?(?:/(?:s|secs?|seconds?|秒|p))*|secs?|seconds?|s|秒)(?![A-Za-z/])",
    re.IGNORECASE,
)
"""Units behind the numbers of an expression, such as `seq/s` in `11.36 seq/s * 2048`."""


def number(digits: str) -> float | None:
    """The value of printed digits, with or without thousands separators; None if too long or not finite."""
    if len(digits) > MAX_NUMBER:
        return None
    value = float(digits.replace(",", ""))
    return value if math.isfinite(value) else None


def whole(text: str) -> int | None:
    """A positive integer, with or without thousands separators; None for anything else."""
    match = re.fullmatch(r"\d{1,3}(?:[, ]\d{3})+|\d{1,15}", text.strip())
    return int(re.sub("[, ]", "", match[0])) or None if match else None


def length(text: str) -> int | None:
    """A sequence length: `4096`, `4,096 tokens`; `4K` is 4096. None for anything else."""
    match = _LENGTH.fullmatch(text.strip())
    value = whole(match[1]) if match else None
    return value * 1024 if value and match and match[2] else value


def figure(text: str, header: str = "") -> Figure | None:
    """A cell's plain text as a figure: a number with an optional unit, or an expression with its result.

    `header` is that of the column, which may state percent or thousands of tokens. A withheld figure has no value.
    None if the cell cannot be parsed.
    """
    if withheld(text):
        return Figure(text=text, value=None)
    if len(text) > 2 * MAX_EXPRESSION:
        return None
    header = normal(header[:400])
    if spaced := _SPACED.match(normal(text)):  # `29 911`
        joined = figure(re.sub(" ", "", spaced[0]) + normal(text)[spaced.end() :], header)
        return None if joined is None else replace(joined, text=text)
    words, percent = normal(_FOOTNOTE.sub("", text)), "%" in header or "percent" in header.lower()
    if remark := _REMARK.fullmatch(words):  # in brackets, where the unit may be too
        words = f"{remark[1]} {remark[2]}" if re.search(r"tok|/s", remark[2], re.IGNORECASE) else remark[1]
    expression, _, result = words.rpartition("=")
    match = _FIGURE.fullmatch(result.strip())
    if match is None:  # an expression that prints no result
        match = None if expression else re.fullmatch(r"([\d\s.,*/+()]+?)\s*([A-Za-z/]*)", words)
        value = computed(match[1]) if match else None
        if match is None or value is None:
            return None
        scale, unit = _scale(None, match[2], header, False), match[2] or None
        return Figure(text=text, value=value * scale, scale=scale, unit=unit, expression=match[1], computed=value)
    unit = (match[3] or "").strip() or None
    if number(match[1]) is None or (unit is not None and len(unit) > 40) or (match[2] and unit == "%"):
        return None
    scale, digits = _scale(match[2], unit, header, percent), match[1].replace(",", "")
    value = computed(expression.rpartition("=")[2]) if expression else None
    return Figure(
        text=text,
        value=float(Decimal(digits) * Decimal(repr(scale))),  # 36.1 x 0.01 is 0.361
        printed=digits,
        scale=scale,
        unit=unit or ("%" if percent else None),
        expression=expression.strip() or None,
        computed=value / scale if value is not None and match[2] else value,
    )


def _scale(magnitude: str | None, unit: str | None, header: str, percent: bool) -> float:
    """The factor of the printed digits: as the cell states it, otherwise as its column's header does."""
    if percent or unit == "%":
        return 0.01
    if magnitude:
        return _MAGNITUDES[magnitude.lower()]
    headed = _HEADED.search(header)
    return _MAGNITUDES[headed[1].lower()] if headed else 1.0


def computed(expression: str) -> float | None:
    """The value of an expression of numbers, + - * / and brackets; None for anything else or if not finite."""
    text = _UNITS.sub("", expression) if len(expression) <= MAX_EXPRESSION else ""
    if _TOKEN.sub("", text).strip():
        return None
    tokens = (
        repr(float(match[1].replace(",", ""))) if match[1] else match[2].replace("x", "*")
        for match in _TOKEN.finditer(text)
    )
    try:
        value = _value(ast.parse(" ".join(tokens), mode="eval").body)
    except (SyntaxError, MemoryError, RecursionError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def _value(tree: ast.expr) -> float:
    """The value of a tree of numbers and the four operations; ValueError for any other."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, float):
        return tree.value
    if not isinstance(tree, ast.BinOp) or type(tree.op) not in _OPERATIONS:
        raise ValueError(ast.dump(tree))
    return _OPERATIONS[type(tree.op)](_value(tree.left), _value(tree.right))


def product(chain: str) -> tuple[tuple[float, float], int] | None:
    """The two factors and the divisor of a chain that begins `16.67 * 2048 / 8`; None for another one."""
    match = _PRODUCT.match(_UNITS.sub("", chain))
    values = [number(digits) for digits in match.groups()] if match else []
    first, second, divisor = values if len(values) == 3 else (None,) * 3
    return None if first is None or second is None or divisor is None else ((first, second), int(divisor))


def broken_link(chain: str) -> tuple[str, str] | None:
    """The first two adjacent parts of `a = b = c` that differ; None if all agree or cannot be computed.

    In `11.36 * 2048 = 23265 / 8` the second part may continue from the value of the first.
    """
    for left, right in pairwise(chain[: 4 * MAX_EXPRESSION].split("=")):
        first = re.match(rf"\s*\(?\s*({_UNSIGNED})", right)
        value, others = computed(left), (computed(right), number(first[1]) if first else None)
        if value and others[0] and not any(math.isclose(value, other or 0.0, rel_tol=1e-3) for other in others):
            return left.strip(), right.strip()
    return None
