"""Published results for the HTML report: each a run without curves, its figures as printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmperf.reporting import cells
from llmperf.reporting.comparison import FIGURES, MFU
from llmperf.reporting.table import HEADERS
from llmperf.reporting.words import word
from llmperf.types import Finding
from llmperf_html.compare import Figures
from llmperf_html.run import finding_text
from llmperf_html.words import NO_RECORDS

from llmperf_published.reporting.cells import device, digits, layout, model, terminal_row, value
from llmperf_published.rules.verdicts import Verdict
from llmperf_published.types.document import Published, PublishedMemory, PublishedRow


def published_runs(
    published: Published, language: str, findings: Sequence[Finding], verdicts: Sequence[Verdict]
) -> Iterator[dict[str, Any]]:
    """Every result of a document as the page takes a run, with its own findings and those of the whole document."""
    for index, row in enumerate(published.rows):
        own = [one for one in findings if not one.path.startswith("/rows/") or one.path.startswith(f"/rows/{index}/")]
        yield {
            "row": _row(published, row, verdicts[index]) | {"errors": _errors(own, verdicts[index])},
            "printed": _printed(row),
            "contract": _contract(row),
            "setting": {word(name, language): text for name, text in _setting(row).items()},
            "figures": _figures(row),
            "sections": [
                {
                    "title": word(title, language),
                    "headers": [],
                    "rows": [[word(cells.printable(label), language), cells.printable(text)] for label, text in rows],
                }
                for title, rows in _sections(published, row, verdicts[index])
            ],
            "findings": [finding_text(one) for one in own],
            "curves": None,
            "no_curves": word(NO_RECORDS, language),
        }


def _errors(own: Sequence[Finding], verdict: Verdict) -> int:
    """A wrong row has its errors even where so many are alike that the findings no longer list them."""
    listed = sum(one.severity == "error" for one in own)
    return max(listed, len(verdict.why)) if verdict.outcome == "wrong" else listed


def _row(published: Published, row: PublishedRow, verdict: Verdict) -> dict[str, Any]:
    metrics = row.metrics
    text = {
        "model": model(row),
        "run": f"{published.source.name}:{row.line}",
        "case": f"{row.case or cells.UNKNOWN}{' (variant)' * (row.variant and row.case is not None)}",
        "device": device(row),
        "layout": f"{row.framework or ''} {layout(row.parallelism)}".strip() or cells.UNKNOWN,
        "fix_hp": row.fix_hp_text or "/",
        "status": f"imported: {verdict.outcome}",
        "provenance": "imported",
        "created": cells.UNKNOWN,
    }
    mfu = value(metrics.mfu)
    return {
        **{key: cells.printable(value) for key, value in text.items()},
        "throughput": value(metrics.tokens_per_second_per_device),
        "mfu": None if mfu is None else round(100 * mfu, 6),
        "loss": value(metrics.loss),
        "memory": _gib(metrics.memory),
        "power": None,
    }


def _printed(row: PublishedRow) -> dict[str, str]:
    """The figures as their document has them, by column of the table."""
    metrics = row.metrics
    named = {"throughput": metrics.tokens_per_second_per_device, "mfu": metrics.mfu, "loss": metrics.loss}
    found = {name: digits(one) for name, one in named.items() if one is not None}
    found["memory"] = "" if metrics.memory is None else metrics.memory.text
    return {name: cells.printable(text) for name, text in found.items() if text}


def _figures(row: PublishedRow) -> Figures:
    """The figures of a comparison: numbers as far as they are known, as printed."""
    metrics, printed = row.metrics, _printed(row)
    numbers = {"token/p/s": ("throughput", metrics.tokens_per_second_per_device), MFU: ("mfu", metrics.mfu),
               "memory of a device, GiB": ("memory", None), "final loss": ("loss", metrics.loss)}  # fmt: skip
    found = (numbers.get(name, (name, None)) for name in FIGURES)
    return [(value(figure), printed.get(column, cells.UNKNOWN)) for column, figure in found]


def _gib(memory: PublishedMemory | None) -> float | None:
    """Most that any device holds, where the document says GiB."""
    if memory is None or memory.unit != "GiB":
        return None
    return max((part.each.value for part in memory.used if part.each.value is not None), default=None)


def _contract(row: PublishedRow) -> dict[str, str]:
    """As far as the document tells it."""
    facts = {"model": row.model or row.model_text, "dataset": row.dataset or row.dataset_text}
    precision = row.precision or row.precision_text
    batch = {"seq_len": row.batch.seq_len, "global_batch": row.batch.global_batch}
    return _told({**facts, "precision": precision, **batch})


def _setting(row: PublishedRow) -> dict[str, str]:
    """As far as the document tells it; its figures are those of whole devices."""
    where = row.hardware
    grid = f"{where.nodes} x {where.devices_per_node}" if where.nodes and where.devices_per_node else None
    return _told({
        "device": where.device_model or where.device or where.configuration, "nodes x devices": grid,
        "share of a device per rank": cells.percent(1.0), "framework": row.framework,
        "layout": layout(row.parallelism) or None,
    })  # fmt: skip


def _told(parts: Mapping[str, object]) -> dict[str, str]:
    return {name: cells.printable(str(value)) for name, value in parts.items() if value is not None}


def _sections(published: Published, row: PublishedRow, verdict: Verdict) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Title and rows of label and text."""
    yield "Performance", list(zip(HEADERS, terminal_row(row, verdict, whole=True), strict=True))
    changes = [(one.path, f"{cells.text(one.case_value)} -> {cells.text(one.value)}") for one in row.fix_hp]
    if changes:
        yield "Changes from the case (fix_hp)", changes
    entries = [(entry.label, entry.text) for one in published.sections for entry in one.entries]
    yield "Environment", entries
    remarks = [(one.line, one.text) for one in published.notes] + [(one.line, one.text) for one in published.unread]
    notes = [(f"{published.source.name}:{line}", text) for line, text in sorted(remarks)]
    if notes:
        yield "Notes", notes
