"""Imported documents in a summary: each model on each vendor's device, with how much of it was checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from llmperf.reporting import cells
from llmperf.reporting.text_table import Column

from llmperf_published.reporting.cells import digits, model, value
from llmperf_published.rules.verdicts import Verdict, counted, judged
from llmperf_published.types.document import Published, PublishedRow

COLUMNS = (
    Column(title="model", importance=1, wraps=14),
    Column(title="vendor", importance=3, wraps=12),
    Column(title="device", importance=2, wraps=16),
    Column(title="documents", importance=10, wraps=20),
    Column(title="rows", importance=8, right=True),
    Column(title="agree", importance=5, right=True),
    Column(title="wrong", importance=6, right=True),
    Column(title="not checked", importance=7, right=True),
    Column(title="best token/p/s", importance=4, right=True),
    Column(title="its MFU", importance=9, right=True),
    Column(title="its verdict", importance=11, wraps=12),
)
"""Of the terminal's table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The rows on one model and device."""

    model: str
    vendor: str | None
    device: str | None
    documents: tuple[str, ...]
    """Names of their folders."""
    rows: tuple[tuple[PublishedRow, Verdict], ...]

    @property
    def best(self) -> tuple[PublishedRow, Verdict] | None:
        """The row with the highest token/p/s that is not known to be wrong; None where none has a figure."""
        known = [one for one in self.rows if _speed(one[0]) > -inf and one[1].outcome != "wrong"]
        return max(known, key=lambda one: _speed(one[0]), default=None)

    def document(self) -> dict[str, Any]:
        """For programs."""
        count = counted(verdict for _, verdict in self.rows)
        told = {"model": self.model, "vendor": self.vendor, "device": self.device, "documents": self.documents}
        outcomes = {"agree": count["agrees"], "wrong": count["wrong"], "not_checked": count["not checked"]}
        best = None
        if self.best is not None:
            row, verdict = self.best
            figure = value(row.metrics.tokens_per_second_per_device)
            best = {"tokens_per_second_per_device": figure, "mfu": value(row.metrics.mfu), **verdict.document()}
        return {**told, "rows": len(self.rows), **outcomes, "best": best}


def kinds(documents: Sequence[tuple[Path, Published]]) -> list[Kind]:
    """Every model on every device, by model, the fastest first."""
    grouped: dict[tuple[str, str | None, str | None], list[tuple[str, PublishedRow, Verdict]]] = {}
    for path, published in documents:
        for row, verdict in zip(published.rows, judged(published)[1], strict=True):
            device = row.hardware.device_model or row.hardware.device
            key = (model(row), published.vendor, device)
            grouped.setdefault(key, []).append((path.parent.name or published.source.name, row, verdict))
    found = [
        Kind(
            model=name, vendor=vendor, device=device,
            documents=tuple(dict.fromkeys(document for document, _, _ in rows)),
            rows=tuple((row, verdict) for _, row, verdict in rows),
        )
        for (name, vendor, device), rows in grouped.items()
    ]  # fmt: skip
    return sorted(found, key=lambda one: (one.model, -_speed(one.best[0]) if one.best else inf))


def table_rows(found: Iterable[Kind]) -> list[list[str | None]]:
    """Cells in the order of COLUMNS; None is unknown."""
    rows = []
    for one in found:
        told, best = one.document(), one.best
        speed = mfu = verdict = None
        if best is not None:
            figures = (best[0].metrics.tokens_per_second_per_device, best[0].metrics.mfu)
            speed, mfu = (
                digits(figure) if figure is not None and figure.value is not None else None for figure in figures
            )
            verdict = best[1].outcome
        counts = [str(told[name]) for name in ("rows", "agree", "wrong", "not_checked")]
        shown = [one.model, one.vendor, one.device, ", ".join(one.documents), *counts, speed, mfu, verdict]
        rows.append([cell if cell is None else cells.printable(cell) for cell in shown])
    return rows


def _speed(row: PublishedRow) -> float:
    figure = value(row.metrics.tokens_per_second_per_device)
    return -inf if figure is None else figure
