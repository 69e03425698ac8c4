"""The core's reporters: terminal, markdown, json, csv, html."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmperf.files.json_files import encode_pretty
from llmperf.reporting import cells
from llmperf.reporting.ranking import Ranked
from llmperf.reporting.text_table import Paint
from llmperf.types import Result

Results = tuple[tuple[Path, Result], ...]


@dataclass(frozen=True)
class FunctionReporter:
    """A reporter made of one function."""

    name: str
    function: Callable[[Results, str], str]

    def render(self, results: Results, language: str) -> str:
        """The whole report as text."""
        return self.function(results, language)


def core_reporters() -> list[Any]:
    """Those that are always there."""
    return [
        FunctionReporter("terminal", terminal),
        FunctionReporter("markdown", markdown),
        FunctionReporter("json", json),
        FunctionReporter("csv", csv_text),
        FunctionReporter("html", html_page),
    ]


def terminal(results: Results, language: str) -> str:
    """One result in full, several as the rows of a table."""
    return terminal_text([result for _, result in results], (), language)


WIDE = "--wide, --format csv"


def terminal_text(
    results: Sequence[Result],
    published: Sequence[Ranked[Sequence[str]]],
    language: str,
    width: int | None = None,
    paint: Paint | None = None,
) -> str:
    """One result in full; several, and those of imported documents, as rows of a table within a width."""
    from llmperf.reporting.summary import left_out_text, ranked_table, result_table
    from llmperf.reporting.table import ranked_result

    if len(results) == 1 and not published:
        return result_table(results[0], language, paint) + "\n"
    table = ranked_table([*map(ranked_result, results), *published], language, width, paint)
    left_out = f"\n{left_out_text(table, language, WIDE)}\n" if table.left_out or table.cut else ""
    return f"{table.text}\n{left_out}"


def markdown(results: Results, language: str) -> str:
    """One document: of several results a table, then each."""
    from llmperf.reporting.markdown_runs import render_runs

    return render_runs([result for _, result in results], language)


def json(results: Results, language: str) -> str:
    """An array of results with the files they were read from."""
    return encode_pretty([{"path": str(path), "result": result} for path, result in results]).decode()


def html_page(results: Results, language: str) -> str:
    """One file that opens in a browser without a network."""
    from llmperf_html.page import html

    return html(results, language)


def csv_text(results: Results, language: str) -> str:
    """One row a result, figures unrounded; unknown is an empty field."""
    return csv_table([dict(csv_row(path, result)) for path, result in results])


def csv_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows under all columns that any of them has, in the order in which these first come."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def csv_row(path: Path, result: Result) -> Iterator[tuple[str, Any]]:
    """Column and value; text that a spreadsheet would take for a formula is quoted."""
    for name, value in _csv_values(path, result):
        yield csv_harmless(name), csv_harmless(value) if isinstance(value, str) else value


def _csv_values(path: Path, result: Result) -> Iterator[tuple[str, Any]]:
    yield "path", str(path)
    yield from ((name, getattr(result, name)) for name in ("run_id", "case", "variant", "status", "provenance"))
    yield from (("created", result.created), ("finished", result.finished))
    yield "failure", None if result.failure is None else result.failure.reason
    yield "fix_hp", cells.fix_hp(result.fix_hp)
    yield "model", result.model.name
    yield "parameters", result.parameters
    yield from ((name, getattr(result.hardware, name)) for name in ("vendor", "device_model", "device_share"))
    yield "framework", result.tuning.framework
    yield "precision", result.contract.precision
    names = (
        "nodes devices_per_node tensor_parallel pipeline_parallel data_parallel context_parallel expert_parallel"
        " sequence_parallel sharding_stage sharding_degree"
    )
    yield from ((name, getattr(result.parallelism, name)) for name in names.split())
    names = "micro_batch gradient_accumulation global_batch seq_len tokens_per_step"
    yield from ((name, getattr(result.batch, name)) for name in names.split())
    yield from _csv_metrics(result)


def _csv_metrics(result: Result) -> Iterator[tuple[str, Any]]:
    names = (
        "tokens_per_second_per_device tokens_per_second measured_steps measured_tokens window_seconds first_loss"
        " final_loss device_memory_used_bytes device_memory_total_bytes utilisation_percent power_watts"
        " energy_joules joules_per_token tokens_per_joule"
    )
    yield from ((name, getattr(result.metrics, name)) for name in names.split())
    steps = result.metrics.step_seconds
    yield from ((f"step_seconds_{name}", getattr(steps, name, None)) for name in ("median", "p5", "p95", "mean"))
    yield "rank_peak_bytes", cells.rank_peak(result)
    for mfu in result.mfu:
        yield f"mfu_{mfu.convention}", mfu.value
    yield "peak_flops_per_second", next((mfu.peak_flops_per_second for mfu in result.mfu), None)
    yield "peak_dtype", next((mfu.peak_dtype for mfu in result.mfu), None)
    yield "peak_source", next((mfu.peak_source for mfu in result.mfu), None)
    yield from ((f"evaluation_{name}", value) for name, value in result.metrics.evaluation.items())
    yield "errors", sum(one.severity == "error" for one in result.findings)


FORMULA_SIGNS = tuple("=+-@＝＋－＠")
"""What formulas begin with; some spreadsheets take full-width signs too. A tab or a line end is no more there then."""


def csv_harmless(value: str) -> str:
    """Text that no spreadsheet takes for a formula, on one line."""
    shown = cells.printable(value)
    return f"'{shown}" if shown.startswith(FORMULA_SIGNS) else shown
