"""The rows of the performance tables, each a published result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llmperf.types.spec import Scalar

from llmperf_published.reading import row_settings
from llmperf_published.reading.cell_text import plain, withheld
from llmperf_published.reading.departures import Said, departures, paths_of
from llmperf_published.reading.figures import figures, metrics
from llmperf_published.reading.library_match import Known, case_of, dataset_name, framework_name, model_name
from llmperf_published.reading.machine import hardware
from llmperf_published.reading.machine_columns import machine, unclear_count, unread_device
from llmperf_published.reading.sections import Contents
from llmperf_published.reading.settings import precision_in, told
from llmperf_published.types.document import Note, PublishedBatch, PublishedLayout, PublishedRow, Table, TableRow


@dataclass(frozen=True)
class Document:
    """What all rows of a document share."""

    contents: Contents
    defaults: PublishedBatch
    strategy: PublishedLayout
    datasets: Sequence[Note]
    known: Known


def rows(document: Document) -> Iterator[PublishedRow]:
    """The results of all performance tables; what is not understood of them is entered in the contents."""
    contents = document.contents
    for index, table in enumerate(contents.tables):
        if table.kind != "performance":
            continue
        group = None
        for number, row in enumerate(table.rows):
            if (named := _group(table, row)) is not None:
                group = named or group
                continue
            if all(withheld(plain(cell)) for cell in row.cells):
                contents.missing(row.line, " | ".join(row.cells), "expected a result, found a row of empty cells")
                continue
            if len(row.cells) < len(table.columns):
                expected = f"expected {len(table.columns)} cells, found {len(row.cells)}"
                contents.missing(row.line, " | ".join(row.cells), expected)
            yield _row(document, index, number, group)


def _group(table: Table, row: TableRow) -> str | None:
    """The text of a row that is a heading among the others: one cell that names no machine, and nothing beside it."""
    first = plain(row.cells[0]) if row.cells else ""
    if withheld(first) or not all(withheld(plain(cell)) for cell in row.cells[1:]):
        return None
    where = hardware(first, None)
    return None if where.nodes or where.devices_per_node else first


def _row(document: Document, index: int, number: int, group: str | None) -> PublishedRow:
    contents, known = document.contents, document.known
    table = contents.tables[index]
    row = table.rows[number]
    found = row_settings.cells_of(_by_name(table, row))
    name = row_settings.configuration(found, row.line)
    where = machine(found.by_name, row.cells, contents)
    devices = (where.nodes or 0) * (where.devices_per_node or 0) or where.devices
    measured = figures(table.columns, row, contents, devices)
    ranks = row_settings.layout(found, document.strategy, name)
    expression = measured.throughput.expression if measured.throughput else None
    batch = row_settings.batch(found, document.defaults, where, ranks, contents, expression)
    precision_text, dataset_text = (_own_or_general(found, contents, name) for name in ("precision", "dataset"))
    model_text = told(found.by_name.get("model")) or contents.text("general", "model")
    model, framework = model_name(model_text, group, known), framework_name(contents)
    case = case_of(model, framework, known)
    precision = precision_in(precision_text)
    dataset = _dataset(document, dataset_text, case.contract.dataset if case else None)
    said = Said(batch, ranks, where, row_settings.free_settings(found, contents, precision, dataset))
    changes = departures(said, case, _defaults(document))
    counted = where.devices is not None and "configuration" not in found.by_name  # in columns of their own
    if where.configuration and not withheld(where.configuration) and not where.devices_per_node and not counted:
        contents.missing(row.line, where.configuration, "expected nodes x devices such as (1x8)")
    if (unread := unread_device(where)) is not None:
        contents.missing(row.line, unread, "expected the name of a device such as A100; which it was stays unknown")
    if (count := unclear_count(where, found.by_name)) is not None:
        contents.missing(row.line, count, "expected devices in all or in each node, and a word that says which")
    for text, reason in (*found.problems, *measured.problems):
        contents.missing(row.line, text, reason)
    return PublishedRow(
        line=row.line,
        table=index,
        row=number,
        group=group,
        model=model,
        model_text=model_text,
        case=case.name if case else None,
        framework=framework,
        variant=any(one.contract for one in changes),
        fix_hp=changes,
        fix_hp_text=found.by_name.get("fix_hp"),
        claims=tuple(found.claims),
        options=found.options,
        configuration_name=name,
        hardware=where,
        parallelism=ranks,
        parallel_text=found.by_name.get("parallel"),
        batch=batch,
        precision=precision,  # type: ignore[arg-type]
        precision_text=precision_text,
        dataset=dataset,
        dataset_text=dataset_text,
        metrics=metrics(measured),
    )


def _by_name(table: Table, row: TableRow) -> dict[str, str]:
    pairs = zip(table.columns, row.cells, strict=False)
    return {column.name: plain(cell) for column, cell in pairs if column.name is not None}


def _own_or_general(found: row_settings.Cells, contents: Contents, name: str) -> str | None:
    """What the row says, set or in a column of its own; else what the general table does."""
    return found.settings.get(name) or told(found.by_name.get(name)) or told(contents.text("general", name))


def _dataset(document: Document, text: str | None, expected: str | None) -> str | None:
    """The data set by its name among cases; that of the case where the document names it anywhere."""
    texts = [text, *(one.text for one in document.datasets)]
    names = [name for one in texts if one and (name := dataset_name(one, document.known))]
    return expected if expected in names else next(iter(names), None)


def _defaults(document: Document) -> dict[str, Scalar]:
    """The document's defaults as a row without a case is held against them."""
    contents = document.contents
    where = hardware(None, None)
    free = {"contract.precision": precision_in(told(contents.text("general", "precision")))}
    known = {path: value for path, value in free.items() if value is not None}
    return paths_of(Said(document.defaults, document.strategy, where, known))
