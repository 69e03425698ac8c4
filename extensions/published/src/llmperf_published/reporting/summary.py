"""Imported documents in `llmperf summary`: each model on each vendor's device, with how many rows were checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

from llmperf.reporting import PERCENT
from llmperf.types import Row, Section, Verdict

from llmperf_published.reporting.sheets import device_name, digits, model, speed_row, value
from llmperf_published.rules.mfu import computed_mfu, per_device
from llmperf_published.rules.vendors import vendor_of
from llmperf_published.rules.verdicts import closing, judged
from llmperf_published.types.document import Published, PublishedRow
from llmperf_published.types.row import Figure, PublishedMetrics

JudgedRow = tuple[PublishedRow, Verdict, float | None]
"""A row, its verdict, and its MFU as llmperf computes it, if it can."""


def summary(documents: Sequence[tuple[Path, Published]]) -> Section:
    """A record for every model on every device, by model, the fastest first; below it the count of all verdicts."""
    kinds: dict[tuple[str, str | None, str | None], list[JudgedRow]] = {}
    names: dict[tuple[str, str | None, str | None], dict[str, None]] = {}
    verdicts: list[Verdict] = []
    for path, published in documents:
        for row, verdict in zip(published.rows, judged(published)[1], strict=True):
            key = (model(row), vendor_of(published, row), device_name(published, row))
            kinds.setdefault(key, []).append((row, verdict, computed_mfu(published, row)))
            names.setdefault(key, {})[path.parent.name or published.source.name] = None
            verdicts.append(verdict)
    in_order = sorted(kinds.items(), key=lambda kind: (kind[0][0], -_speed(_best(kind[1]))))
    records = tuple(_record(key, rows, ", ".join(names[key])) for key, rows in in_order)
    closed = Row(key="", label="", value=closing(verdicts), own_words=True)
    return Section(key="summary", title="Published results", records=records, rows=(closed,))


def _record(key: tuple[str, str | None, str | None], rows: Sequence[JudgedRow], documents: str) -> tuple[Row, ...]:
    """The cells that matter most come first: a narrow terminal leaves out the last ones."""
    name, vendor, device = key
    count = Counter(verdict.outcome for _, verdict, _ in rows)
    best = _best(rows)
    metrics = best[0].metrics if best else PublishedMetrics()
    speed = speed_row(best[0]) if best else Row(key="", label="", value=None)
    return (
        Row(key="model", label="model", value=name),
        Row(key="device", label="device", value=device),
        Row(key="vendor", label="vendor", value=vendor),
        replace(speed, key="best_tokens_per_second_per_device", label="best token/p/s"),
        Row(key="agree", label="agree", value=count["agrees"]),
        Row(key="wrong", label="wrong", value=count["wrong"]),
        Row(key="not_checked", label="not checked", value=count["not checked"]),
        Row(key="rows", label="rows", value=len(rows)),
        _figure("best_mfu", "printed MFU", metrics.mfu),
        Row(key="best_mfu_computed", label="MFU (nominal), computed", value=best and best[2], rounding=PERCENT),
        Row(key="documents", label="documents", value=documents),
        Row(key="best_verdict", label="its verdict", value=best and best[1].outcome, own_words=True),
    )


def _figure(key: str, label: str, figure: Figure | None) -> Row:
    number = value(figure)
    return Row(key=key, label=label, value=number, text=None if figure is None or number is None else digits(figure))


def _best(rows: Sequence[JudgedRow]) -> JudgedRow | None:
    """The row with the highest token/p/s that is not known to be wrong; None if none has a figure."""
    known = [row for row in rows if _speed(row) > -inf and row[1].outcome != "wrong"]
    return max(known, key=_speed, default=None)


def _speed(row: JudgedRow | None) -> float:
    figure = None if row is None else value(per_device(row[0]))
    return -inf if figure is None else figure
