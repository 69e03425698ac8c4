"""Rules on published figures: throughput, MFU, loss."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import isfinite, log

from llmperf.types import Text, Violation
from llmperf.validation import shown

from llmperf_published.reading.numbers import Factors, broken_link, computed, factors
from llmperf_published.rules import rule
from llmperf_published.rules.flops import model_of
from llmperf_published.rules.layout import place, world_size
from llmperf_published.types.document import Published, PublishedRow
from llmperf_published.types.row import Figure

FIGURES = {
    "tokens_per_second_per_device": "throughput",
    "tokens_per_second": "throughput",
    "loss": "loss",
    "mfu": "MFU",
    "hfu": "HFU",
    "memory": "memory",
}
"""Fields of a row's metrics, by what their column is called in a message."""
NO_NUMBER = re.compile(r"[-+]?(?:(?:nan|inf|infinity)\b|∞)", re.IGNORECASE)
"""How a cell begins that says so instead of a figure, perhaps with a remark behind it."""
LOSS_OVER_UNTRAINED = 3.0
"""Nats above ln(vocabulary) that a fresh model's loss may have; a published loss is one of a trained model."""


@rule("LP211", "error", "An expression gives the figure that is printed beside it")
def expressions_hold(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        for path, figure in _expressions(row):
            value, path = figure.computed, f"/rows/{index}/metrics/{path}"
            if value is None or not isfinite(value):
                continue
            if figure.printed is not None and not _gives(figure, value):
                values = value, figure.expression, figure.printed, place(row)
                yield path, Text("expected {:.6g} ({}), found {}, {}", *values)
            elif (broken := broken_link(figure.expression or "")) is not None:
                yield path, Text("expected {}, found {!r}, {}", _with_value(broken[0]), broken[1], place(row))


def _gives(figure: Figure, value: float) -> bool:
    """A share may be printed in percent: `120.4 / 312 = 38.6%`."""
    return figure.admits(value * figure.scale) or (figure.unit == "%" and figure.admits(value))


def _with_value(expression: str) -> str:
    """An expression with what it gives, for a message."""
    return Text("{:.6g} ({})", computed(expression), expression)


def _expressions(row: PublishedRow) -> Iterator[tuple[str, Figure]]:
    for name in ("tokens_per_second_per_device", "tokens_per_second", "loss", "mfu", "hfu"):
        figure = getattr(row.metrics, name)
        if figure is not None and figure.expression is not None and figure.value is not None:
            yield name, figure


@rule("LP212", "error", "A throughput expression uses the row's devices and sequence length")
def expression_uses_the_row(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        name = "tokens_per_second_per_device" if row.metrics.tokens_per_second_per_device else "tokens_per_second"
        figure = getattr(row.metrics, name)
        parts = factors(figure.expression) if figure is not None and figure.expression else None
        if parts is None:
            continue
        path = f"/rows/{index}/metrics/{name}/expression"
        for what, expected, found in _terms(parts, row.batch.seq_len, world_size(row)):
            values = Text(what, expected), found, figure.expression, place(row)
            yield path, Text("expected {}, found {} in {!r}, {}", *values)


def _terms(parts: Factors, length: int | None, devices: int | None) -> Iterator[tuple[str, int, int]]:
    """Differences between a product of at least two numbers and the row's own values: in words, expected, found."""
    multiplied, divided = (_whole(one) for one in (parts.multiplied, parts.divided))
    if len(parts.multiplied) < 2 or not parts.divided:
        return
    if length is not None and multiplied and length not in multiplied:
        yield "sequence length {}", length, multiplied[-1]
    if devices is not None and divided and devices not in divided:
        yield "{} devices", devices, divided[-1]


def _whole(values: Iterable[float]) -> list[int]:
    return [int(one) for one in values if one.is_integer()]


@rule("LP213", "error", "Published tokens/s are token/p/s x devices")
def totals_agree(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        each, whole, devices = row.metrics.tokens_per_second_per_device, row.metrics.tokens_per_second, world_size(row)
        if not each or not whole or each.value is None or whole.value is None or devices is None:
            continue
        low, high = each.bounds
        if whole.bounds[1] < low * devices or whole.bounds[0] > high * devices:
            expected = Text("expected {:.6g} ({} x {} devices)", each.value * devices, each.text, devices)
            yield f"/rows/{index}/metrics/tokens_per_second", Text("{}, found {}, {}", expected, whole.text, place(row))


@rule("LP214", "warning", "A column of figures has one in each row")
def no_figure_withheld(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        for name, called in FIGURES.items():
            figure = getattr(row.metrics, name)
            if figure is None:
                yield from _not_understood(published, row, name, called, f"/rows/{index}/metrics/{name}")
                continue
            empty = not figure.used if name == "memory" else not figure.stated
            if empty:
                found = repr(figure.text) if figure.text else Text("an empty cell")
                yield f"/rows/{index}/metrics/{name}", Text("expected {}, found {}, {}", called, found, place(row))


def _not_understood(published: Published, row: PublishedRow, name: str, called: str, path: str) -> Iterator[Violation]:
    """`>59%` below MFU: the cell is there, and gives no figure."""
    cell = published.cells(row).get(name)
    if cell is not None and name in ("loss", "mfu", "hfu", "memory"):
        yield path, Text("expected {}, found {!r}, {}", called, cell, place(row))


@rule("LP215", "warning", "A published row has a throughput")
def throughput_is_there(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        each, whole = row.metrics.tokens_per_second_per_device, row.metrics.tokens_per_second
        if each is None and whole is None and "throughput" not in row.metrics.other:
            yield f"/rows/{index}/metrics", Text("expected a column such as token/p/s, found none, {}", place(row))


@rule("LP217", "note", "A share is printed with its unit")
def share_has_a_unit(published: Published) -> Iterator[Violation]:
    for index, table in enumerate(published.tables):
        for number, column in enumerate(table.columns):
            if column.unit == "percent":
                message = Text(
                    "expected % in the header or the cells of {}, found none; its figures were read as percent, as the"
                    " largest is too large for a share of 1, line {}",
                    *(shown(column.header), table.line),
                )
                yield f"/tables/{index}/columns/{number}", message


@rule("LP216", "error", "A published throughput is above 0")
def throughput_is_positive(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        for name in ("tokens_per_second_per_device", "tokens_per_second"):
            figure = getattr(row.metrics, name)
            if figure is not None and any(number.value is not None and number.value <= 0 for number in figure.numbers):
                path = f"/rows/{index}/metrics/{name}"
                yield path, Text("expected more than 0 tokens a second, found {}, {}", figure.text, place(row))


@rule("LP511", "error", "A published loss is that of a language model")
def loss_is_plausible(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        loss, model = row.metrics.loss, model_of(published, row)
        if loss is None or loss.value is None:
            continue
        limit = log(model.vocab_size) + LOSS_OVER_UNTRAINED if model else None
        if loss.value <= 0 or (limit is not None and loss.value > limit):
            most = "" if model is None or limit is None else Text(" to {:.4g} (ln {} + 3)", limit, model.vocab_size)
            message = Text("expected more than 0{} nats per token, found {}, {}", most, loss.text, place(row))
            yield f"/rows/{index}/metrics/loss", message


@rule("LP508", "error", "A published figure is not NaN or infinite")
def figures_are_finite(published: Published) -> Iterator[Violation]:
    rows = {row.line for row in published.rows}
    for index, unread in enumerate(published.unread):
        figure = unread.line in rows and unread.reason.startswith("expected a number under")
        if figure and NO_NUMBER.match(unread.text.strip()):
            message = Text(
                "{}, found {}, line {}: training diverged, or nothing was measured",
                *(Text.read(unread.reason), shown(unread.text), unread.line),
            )
            yield f"/unread/{index}", message
