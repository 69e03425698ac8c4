"""The runs of a matrix as text and as plain values: a row for each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import click
from llmperf import print_table
from llmperf.reporting import PERCENT, THROUGHPUT, UNKNOWN, Column, printable, rounded
from llmperf.types.units import Count

from llmperf_sweep.matrix_file import AXES, Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    """One cell with the outcome of its runs."""

    cell: Cell
    """The cell that was run."""
    runs: Count
    """Runs of it that are to be made here."""
    throughputs: tuple[float, ...]
    """token/p/s of the complete runs, as far as known."""
    complete: Count
    """Complete runs."""
    error_findings: Count
    """Findings of complete runs that are errors."""
    folders: tuple[str, ...]
    """Run folders of the complete runs, below `runs/`."""
    failures: tuple[str, ...] = ()
    """Reasons why the last attempt failed, of each run without a complete result."""
    refusals: tuple[str, ...] = ()
    """Reasons why the cell cannot run here."""
    expected_step_seconds: float | None = None
    """Estimated time of a step; None without rates of the device."""
    expected_peak_bytes: int | None = None
    """Estimated peak of the rank that needs most."""

    @property
    def status(self) -> str:
        """One word, or the number of complete runs."""
        if self.complete == self.runs:
            return "complete"
        if self.refusals:
            return "refused"
        return "failed" if self.failures else "left"

    @property
    def spread(self) -> float | None:
        """(maximum - minimum) / median of the throughputs; None for less than two."""
        if len(self.throughputs) < 2 or not median(self.throughputs):
            return None
        return (max(self.throughputs) - min(self.throughputs)) / median(self.throughputs)

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        middle = median(self.throughputs) if self.throughputs else None
        figures = {"status": self.status, "tokens_per_second_per_device": middle, "spread": self.spread}
        return {"identity": self.cell.identity, **values, **figures}


def varying(cells: Sequence[Cell]) -> list[str]:
    """The axes on which the cells differ: keys of AXES and paths of settings."""
    keys = [*AXES, *sorted({path for cell in cells for path in cell.settings})]
    return [key for key in keys if any(cell.value(key) != cells[0].value(key) for cell in cells[1:])]


def label(cell: Cell, keys: Sequence[str]) -> str:
    """Such as `default zero micro_batch=4`: the values of a cell on the given axes."""
    words = [cell.case] if "case" in keys or not keys else []
    for key in keys:
        value = cell.value(key)
        if key != "case" and value is not None:
            words.append(str(value) if key in ("vendor", "framework") else f"{key.rpartition('.')[2]}={_shown(value)}")
    return printable(" ".join(words))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def print_cells(summaries: Sequence[CellSummary]) -> None:
    """Print a row for each cell, and why some have no result; cells with the same reasons share a line."""
    keys = varying([summary.cell for summary in summaries])
    rows = []
    reasons: dict[tuple[str, str], list[str]] = {}
    for summary in summaries:
        values = [summary.cell.value(key) for key in keys or ["case"]]
        middle, errors = median(summary.throughputs) if summary.throughputs else None, summary.error_findings
        rows.append([
            *(UNKNOWN if value is None else printable(_shown(value)) for value in values),
            f"{summary.complete}/{summary.runs}",
            rounded(middle, THROUGHPUT),
            UNKNOWN if summary.spread is None else rounded(summary.spread, PERCENT),
            f"invalid: {errors:,} error{'s' * (errors != 1)}" if errors else summary.status,
        ])  # fmt: skip
        for kind, lines in (("failed", summary.failures), ("refused", summary.refusals)):
            for line in dict.fromkeys(lines):
                reasons.setdefault((kind, line), []).append(label(summary.cell, keys))
    columns = [
        *(Column(title=key.rpartition(".")[2], importance=3, wraps=16) for key in keys or ["case"]),
        Column(title="runs", importance=4, right=True),
        Column(title="token/p/s", importance=1, right=True),
        Column(title="spread", importance=5, right=True),
        Column(title="status", importance=2),
    ]
    print_table(columns, rows)
    if reasons:
        click.echo()
    for (kind, line), names in reasons.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        text = printable(f"{kind}: {'; '.join(names[:3])}{more}: {line}", 1000)
        click.echo(click.style(text, fg={"failed": "red", "refused": "yellow"}[kind]))
