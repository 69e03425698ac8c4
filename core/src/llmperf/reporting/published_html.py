"""Published results for the HTML report: each a run without curves, its figures as printed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from llmperf.reporting import cells
from llmperf.reporting.html_run import finding_text
from llmperf.reporting.published_cells import device, layout, terminal_row, value
from llmperf.reporting.table import HEADERS
from llmperf.reporting.words import word
from llmperf.types import Finding
from llmperf.types.published import Published, PublishedMemory, PublishedRow


def published_runs(published: Published, language: str, findings: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    """Every result of a document as the page takes a run, with its own findings and those of the whole document."""
    for index, row in enumerate(published.rows):
        own = [one for one in findings if not one.path.startswith("/rows/") or one.path.startswith(f"/rows/{index}/")]
        yield {
            "row": {**_row(published, row), "errors": sum(one.severity == "error" for one in own)},
            "contract": json.dumps(_contract(row), sort_keys=True),
            "sections": [
                {
                    "title": word(title, language),
                    "headers": [],
                    "rows": [list(map(cells.printable, one)) for one in rows],
                }
                for title, rows in _sections(published, row)
            ],
            "findings": [finding_text(one) for one in own],
            "curves": None,
        }


def _row(published: Published, row: PublishedRow) -> dict[str, Any]:
    metrics = row.metrics
    name = row.case or row.model or row.model_text or cells.UNKNOWN
    text = {
        "run": f"{published.source.name}:{row.line}",
        "case": f"{name}{' (variant)' * row.variant}",
        "device": device(row),
        "framework": row.framework or cells.UNKNOWN,
        "layout": layout(row.parallelism) or cells.UNKNOWN,
        "fix_hp": row.fix_hp_text or "/",
        "status": "imported",
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


def _gib(memory: PublishedMemory | None) -> float | None:
    """Most that any device holds, where the document says GiB."""
    if memory is None or memory.unit != "GiB":
        return None
    return max((part.each.value for part in memory.used if part.each.value is not None), default=None)


def _contract(row: PublishedRow) -> dict[str, Any]:
    facts = {"model": row.model or row.model_text, "dataset": row.dataset or row.dataset_text}
    precision = row.precision or row.precision_text
    return {**facts, "precision": precision, "seq_len": row.batch.seq_len, "global_batch": row.batch.global_batch}


def _sections(published: Published, row: PublishedRow) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Title and rows of label and text."""
    yield "Performance", list(zip(HEADERS, terminal_row(row), strict=True))
    changes = [(one.path, f"{cells.text(one.case_value)} -> {cells.text(one.value)}") for one in row.fix_hp]
    if changes:
        yield "Changes from the case (fix_hp)", changes
    entries = [(entry.label, entry.text) for one in published.sections for entry in one.entries]
    yield "Environment", entries
    remarks = [(one.line, one.text) for one in published.notes] + [(one.line, one.text) for one in published.unread]
    notes = [(f"{published.source.name}:{line}", text) for line, text in sorted(remarks)]
    if notes:
        yield "Notes", notes
