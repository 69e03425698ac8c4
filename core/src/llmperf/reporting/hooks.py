"""The core's own report formats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.hookspecs import hookimpl

if TYPE_CHECKING:
    from llmperf.types import DocumentKind, Finding, Plan, Reporter, Result, ResultSection, Row, Sheet
    from llmperf.types.roofline import Roofline


@hookimpl
def llmperf_reporters() -> Iterable[Reporter]:
    """Terminal, Markdown, CSV and JSON."""
    from llmperf.reporting.exports import CsvReporter, JsonReporter
    from llmperf.reporting.markdown import MarkdownReporter
    from llmperf.reporting.terminal import TerminalReporter

    return [TerminalReporter(), MarkdownReporter(), CsvReporter(), JsonReporter()]


@hookimpl
def llmperf_document_kinds() -> Iterable[DocumentKind]:
    """Results, with their sheets."""
    from llmperf.validation.core_kinds import result_kind

    return [result_kind(_result_sheets)]


def _result_sheets(result: Result, path: Path, findings: Sequence[Finding]) -> Iterable[Sheet]:
    from llmperf.reporting.result_sheets import result_sheet

    return [result_sheet(result, path, findings)]


@hookimpl
def llmperf_result_sections() -> Iterable[ResultSection]:
    """The place of a run on the roofline, where a plugin expects the work of a step."""
    from llmperf.plugins.loading import plugins_for
    from llmperf.types import ResultSection
    from llmperf.types.roofline import Roofline

    roofline = ResultSection(name="roofline", figures=Roofline, compute=_roofline, rows=_roofline_rows)
    return [roofline] if plugins_for().answers("llmperf_plan_checks") else []


def _roofline(plan: Plan, result: Result, _: Path) -> Roofline | None:
    from llmperf.results.roofline import roofline

    steps = result.metrics.step_seconds
    return roofline(plan, steps.median) if result.status == "complete" and steps is not None else None


def _roofline_rows(line: Roofline, _: Result) -> Iterator[Row]:
    from llmperf.reporting.cells import PERCENT, SIGNIFICANT, shown
    from llmperf.types import Row

    intensity, ridge, attained = (
        Row(key=name, label="roofline", value=getattr(line, name), rounding=rounding)
        for name, rounding in (
            ("flops_per_byte", SIGNIFICANT), ("ridge_flops_per_byte", SIGNIFICANT), ("share_of_attainable", PERCENT)
        )
    )  # fmt: skip
    place = "no rates of the device, so its ridge is unknown"
    if line.bound is not None:
        place = f"ridge at {shown(ridge)}: {line.bound} bound, {shown(attained)} of attainable FLOP/s"
        place += f" ({line.rates_basis} rates, {line.rates_date})"
    yield Row(
        key="flops_per_byte",
        label="roofline",
        value=line.flops_per_byte,
        rounding=SIGNIFICANT,
        text=f"{shown(intensity)} FLOPs a byte ({line.method}); {place}",
        parts=(intensity, ridge, Row(key="bound", label="roofline", value=line.bound), attained),
        own_words=True,
    )
