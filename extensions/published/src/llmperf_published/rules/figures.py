"""Rules on published figures: throughput, MFU, loss."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite, log

from llmperf.types import Text, Violation
from llmperf.validation import shown

from llmperf_published.reading.numbers import broken_link, computed, product
from llmperf_published.rules import row_rule, rule
from llmperf_published.rules.flops import model_of
from llmperf_published.types.document import Published, PublishedRow

THROUGHPUTS = ("tokens_per_second_per_device", "tokens_per_second")
FIGURES = {**dict.fromkeys(THROUGHPUTS, "throughput"), "loss": "loss", "mfu": "MFU", "hfu": "HFU", "memory": "memory"}
"""Fields of a row's metrics, by what their column is called in a message."""
NO_NUMBER = re.compile(r"[-+]?(?:(?:nan|inf|infinity)\b|∞)", re.IGNORECASE)
"""How a cell begins that says so instead of a figure, perhaps with a remark behind it."""
LOSS_OVER_UNTRAINED = 3.0
"""Nats above ln(vocabulary) that a fresh model's loss may have; a published loss is one of a trained model."""


@row_rule("LP211", "error", "An expression gives the figure that is printed beside it")
def expressions_hold(_: Published, row: PublishedRow) -> Iterator[Violation]:
    for name in (*THROUGHPUTS, "loss", "mfu", "hfu"):
        figure = getattr(row.metrics, name)
        value = figure.computed if figure is not None and figure.value is not None and figure.expression else None
        if value is None or not isfinite(value):
            continue
        gives = (figure.printed is None or figure.admits(value * figure.scale)
                 or (figure.unit == "%" and figure.admits(value)))  # fmt: skip
        if not gives:
            message = Text("expected {:.6g} ({}), found {}", value, figure.expression, figure.printed)
            yield f"metrics/{name}", message
        elif (broken := broken_link(figure.expression)) is not None:
            expected = Text("{:.6g} ({})", computed(broken[0]), broken[0])
            yield f"metrics/{name}", Text("expected {}, found {!r}", expected, broken[1])


@row_rule("LP212", "error", "A throughput expression uses the row's devices and sequence length")
def expression_uses_the_row(_: Published, row: PublishedRow) -> Iterator[Violation]:
    name = THROUGHPUTS[0] if row.metrics.tokens_per_second_per_device else THROUGHPUTS[1]
    figure = getattr(row.metrics, name)
    parts = product(figure.expression) if figure is not None and figure.expression else None
    if parts is None:
        return
    lengths = [int(factor) for factor in parts[0] if factor.is_integer()]
    for what, own, printed in (
        ("sequence length {}", row.batch.seq_len, lengths),
        ("{} devices", row.hardware.world_size, parts[1:]),
    ):
        if own is not None and printed and own not in printed:
            message = Text("expected {}, found {} in {!r}", Text(what, own), printed[-1], figure.expression)
            yield f"metrics/{name}/expression", message


@row_rule("LP213", "error", "Published tokens/s are token/p/s x devices")
def totals_agree(_: Published, row: PublishedRow) -> Iterator[Violation]:
    each, whole = row.metrics.tokens_per_second_per_device, row.metrics.tokens_per_second
    devices = row.hardware.world_size
    if not each or not whole or each.value is None or whole.value is None or devices is None:
        return
    low, high = each.bounds
    if whole.bounds[1] < low * devices or whole.bounds[0] > high * devices:
        expected = Text("expected {:.6g} ({} x {} devices)", each.value * devices, each.text, devices)
        yield "metrics/tokens_per_second", Text("{}, found {}", expected, whole.text)


@row_rule("LP214", "warning", "A column of figures has one in each row")
def no_figure_withheld(published: Published, row: PublishedRow) -> Iterator[Violation]:
    for name, called in FIGURES.items():
        figure = getattr(row.metrics, name)
        cell = published.cells(row).get(name) if figure is None else None
        if cell is not None and name not in THROUGHPUTS:
            yield f"metrics/{name}", Text("expected {}, found {!r}", called, cell)
        elif figure is not None and not (figure.used if name == "memory" else figure.stated):
            found = repr(figure.text) if figure.text else Text("an empty cell")
            yield f"metrics/{name}", Text("expected {}, found {}", called, found)


@row_rule("LP215", "warning", "A published row has a throughput")
def throughput_is_there(_: Published, row: PublishedRow) -> Iterator[Violation]:
    each, whole = row.metrics.tokens_per_second_per_device, row.metrics.tokens_per_second
    if each is None and whole is None and "throughput" not in row.metrics.other:
        yield "metrics", Text("expected a column such as token/p/s, found none")


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


@row_rule("LP216", "error", "A published throughput is above 0")
def throughput_is_positive(_: Published, row: PublishedRow) -> Iterator[Violation]:
    for name in THROUGHPUTS:
        figure = getattr(row.metrics, name)
        if figure is not None and figure.value is not None and figure.value <= 0:
            yield f"metrics/{name}", Text("expected more than 0 tokens a second, found {}", figure.text)


@row_rule("LP511", "error", "A published loss is that of a language model")
def loss_is_plausible(published: Published, row: PublishedRow) -> Iterator[Violation]:
    loss, model = row.metrics.loss, model_of(published, row)
    if loss is None or loss.value is None:
        return
    limit = log(model.vocab_size) + LOSS_OVER_UNTRAINED if model else None
    if loss.value <= 0 or (limit is not None and loss.value > limit):
        most = "" if model is None or limit is None else Text(" to {:.4g} (ln {} + 3)", limit, model.vocab_size)
        yield "metrics/loss", Text("expected more than 0{} nats per token, found {}", most, loss.text)


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
