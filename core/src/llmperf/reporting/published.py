"""Imported documents in the formats of `llmperf report`, by themselves or beside measured results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llmperf.documents import encode_pretty
from llmperf.errors import UserError
from llmperf.reporting import cells
from llmperf.reporting.formats import Results, csv_harmless, csv_row, csv_table
from llmperf.reporting.published_markdown import published_markdown
from llmperf.types.published import Figure, Published, PublishedLayout, PublishedRow

Documents = Sequence[tuple[Path, Published]]


def render(wanted: str, results: Results, documents: Documents, language: str) -> str:
    """Imported documents, after measured results if there are any; UserError for a format that cannot show them."""
    if wanted not in FORMATS:
        raise UserError(f"--format {wanted}: cannot show imported documents; expected one of: {', '.join(FORMATS)}")
    return FORMATS[wanted](results, documents, language)


def _terminal(results: Results, documents: Documents, language: str) -> str:
    """One row a result."""
    from llmperf.reporting.summary import rows_table
    from llmperf.reporting.table import comparison_row

    shown = [comparison_row(result) for _, result in results]
    shown += [terminal_row(row) for _, one in documents for row in one.rows]
    return rows_table(shown) + "\n"


def terminal_row(row: PublishedRow) -> Sequence[str]:
    """One published result in the columns of the comparison table; figures as printed."""
    metrics = row.metrics
    return (
        row.case or cells.text(row.model or row.model_text),
        device(row),
        f"{row.framework or ''} {layout(row.parallelism)}".strip(),
        row.fix_hp_text or "/",
        _figure(metrics.tokens_per_second_per_device),
        _figure(metrics.loss),
        cells.UNKNOWN if metrics.memory is None else metrics.memory.text or cells.UNKNOWN,
        _figure(metrics.mfu),
        "imported",
    )


def device(row: PublishedRow) -> str:
    """`1x8 NVIDIA_A100-SXM4-40GB`, as far as it is known."""
    where = row.hardware
    grid = f"{where.nodes}x{where.devices_per_node} " if where.nodes and where.devices_per_node else ""
    return f"{grid}{where.device_model or where.device or where.configuration or cells.UNKNOWN}"


def layout(parallelism: PublishedLayout) -> str:
    """`TP4 x PP1 x DP2, sharding stage 1`, as far as it is known."""
    named = {"TP": parallelism.tensor_parallel, "PP": parallelism.pipeline_parallel, "DP": parallelism.data_parallel}
    degrees = [f"{name}{degree}" for name, degree in {**named, **parallelism.other}.items() if degree is not None]
    stage = parallelism.sharding_stage
    sharded = [] if stage is None else [f"sharding stage {stage}"]
    return ", ".join([" x ".join(degrees)] * bool(degrees) + sharded)


def _figure(figure: Figure | None) -> str:
    return cells.UNKNOWN if figure is None else figure.text or cells.UNKNOWN


def _markdown(results: Results, documents: Documents, language: str) -> str:
    from llmperf.reporting.markdown import render_markdown

    measured = [render_markdown(result, language) for _, result in results]
    return "\n".join([*measured, *(published_markdown(one, language) for _, one in documents)])


def _json(results: Results, documents: Documents, language: str) -> str:
    listed: list[Mapping[str, Any]] = [{"path": str(path), "result": result} for path, result in results]
    listed += [{"path": str(path), "published": one} for path, one in documents]
    return encode_pretty(listed).decode()


def _csv(results: Results, documents: Documents, language: str) -> str:
    """One row a result in the columns of measured results, as far as the document gives them."""
    rows = [dict(csv_row(path, result)) for path, result in results]
    rows += [dict(published_csv_row(path, row)) for path, one in documents for row in one.rows]
    return csv_table(rows)


def _html(results: Results, documents: Documents, language: str) -> str:
    from llmperf.reporting.html import html

    return html(results, language, documents)


def published_csv_row(path: Path, row: PublishedRow) -> Iterator[tuple[str, Any]]:
    """Column and value; text that a spreadsheet would take for a formula is quoted."""
    for name, value in _csv_values(path, row):
        yield csv_harmless(name), csv_harmless(value) if isinstance(value, str) else value


def _csv_values(path: Path, row: PublishedRow) -> Iterator[tuple[str, Any]]:
    metrics, where, memory = row.metrics, row.hardware, row.metrics.memory
    yield from (("path", str(path)), ("line", row.line), ("case", row.case), ("variant", row.variant))
    yield from (("provenance", "imported"), ("fix_hp", row.fix_hp_text), ("model", row.model or row.model_text))
    yield from (("device_model", where.device_model or where.device), ("framework", row.framework))
    yield from (("precision", row.precision or row.precision_text), ("nodes", where.nodes))
    yield "devices_per_node", where.devices_per_node
    names = "tensor_parallel pipeline_parallel sharding_stage sharding_degree"
    yield from ((name, getattr(row.parallelism, name)) for name in names.split())
    names = "data_parallel micro_batch gradient_accumulation global_batch seq_len"
    yield from ((name, getattr(row.batch, name)) for name in names.split())
    yield "tokens_per_second_per_device", _value(metrics.tokens_per_second_per_device)
    yield "tokens_per_second", _value(metrics.tokens_per_second)
    yield "final_loss", _value(metrics.loss)
    yield "mfu_nominal", _value(metrics.mfu)
    yield "memory", None if memory is None else memory.text
    yield from ((f"evaluation_{name}", _value(figure)) for name, figure in metrics.evaluation.items())


def _value(figure: Figure | None) -> float | None:
    return None if figure is None else figure.value


FORMATS: Mapping[str, Callable[[Results, Documents, str], str]] = {
    "terminal": _terminal,
    "markdown": _markdown,
    "json": _json,
    "csv": _csv,
    "html": _html,
}
"""Those that can show imported documents."""
