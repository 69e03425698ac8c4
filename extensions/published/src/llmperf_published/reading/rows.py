"""The rows of the performance tables, each a published result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from llmperf_published.reading import library_match, row_settings
from llmperf_published.reading.cells import figures, read_figure
from llmperf_published.reading.machine import configuration_name, hardware, machine, machine_problems
from llmperf_published.reading.markdown import plain, withheld
from llmperf_published.reading.own_facts import on_own_device, stated_of
from llmperf_published.reading.sections import Contents
from llmperf_published.reading.settings import precision_in, stated
from llmperf_published.reading.vocabulary import column_meaning
from llmperf_published.types.document import Note, PublishedRow
from llmperf_published.types.row import PublishedBatch, PublishedLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Data shared by all rows of a document."""

    contents: Contents
    defaults: PublishedBatch
    strategy: PublishedLayout
    datasets: Sequence[Note]
    framework: str | None
    """The framework plugin that the document names."""
    known: library_match.Known


def rows(document: Document) -> Iterator[PublishedRow]:
    """The results of all performance tables; what is not understood in them is recorded in the contents."""
    contents = document.contents
    for index, table in enumerate(contents.tables):
        if table.kind != "performance":
            continue
        group = None
        for number, row in enumerate(table.rows):
            first, *others = (plain(cell) for cell in row.cells or ("",))
            if not withheld(first) and all(map(withheld, others)):
                machine_of_row = hardware(first, None)
                if not (machine_of_row.nodes or machine_of_row.devices_per_node):
                    group = first  # the heading of the rows below it
                    continue
            text = " | ".join(row.cells)
            if all(withheld(plain(cell)) for cell in row.cells):
                contents.missing(row.line, text, "expected a result, found a row of empty cells")
                continue
            if not table.is_aligned(row):
                reason = f"expected {len(table.columns)} cells, found {len(row.cells)}; only the first is read"
                contents.missing(row.line, text, reason)
            yield _row(document, index, number, group)
        for place, column in enumerate(table.columns):
            if column.read_as is not None or column.name is not None or column_meaning(column.header) is not None:
                continue
            cells = [plain(row.cells[place]) for row in table.rows if table.is_aligned(row)]
            values = (read_figure(column, cell)[0] for cell in cells)
            if any(value is not None and value.stated for value in values):
                reason = "expected a column that is known; its numbers are kept among the other figures"
                contents.missing(table.line, plain(column.header), reason)
            elif not all(map(withheld, cells)):
                reason = "expected a column that is known; its cells are kept"
                contents.missing(table.line, plain(column.header) or f"column {place + 1}, without a header", reason)


def _row(document: Document, index: int, number: int, group: str | None) -> PublishedRow:
    contents, known = document.contents, document.known
    table = contents.tables[index]
    row = table.rows[number]
    if not table.is_aligned(row):
        row = replace(row, cells=row.cells[:1])
    columns = table.columns[: len(row.cells)]
    pairs = list(zip(columns, row.cells, strict=False))
    by_name = {column.name: plain(cell) for column, cell in pairs if column.name is not None}
    cells = row_settings.cells_of(by_name)
    configuration = stated(by_name.get("config_name"))
    name = configuration_name(configuration, row.line) if configuration else None
    stated_facts, own_model = stated_of(known, {plain(table.heading), *(plain(cell) for _, cell in pairs)})
    where = machine(by_name, row.cells, contents, stated_facts.device)
    from_importer = ["columns"] * any(column.read_as for column in columns)
    if where.device_model is not None and not contents.entries("hardware", "accelerator"):
        from_importer.append("device")
    counted = (stated_facts.nodes, stated_facts.devices_per_node, stated_facts.devices)
    if any(counted) and not (where.devices_per_node or where.devices):
        where = replace(where, nodes=counted[0], devices_per_node=counted[1], devices=counted[2])
        from_importer.append("devices")
    if known.own is not None:
        where = on_own_device(where, by_name.values(), known.own)
    metrics, expression, problems = figures(columns, row, contents, where)
    layout = row_settings.layout(cells, document.strategy, name)
    batch = row_settings.batch(cells, document.defaults, where, layout, contents, expression)
    if batch.seq_len is None and stated_facts.seq_len and "seq_len" not in cells.unclear:
        batch = replace(batch, seq_len=stated_facts.seq_len, origins={**batch.origins, "seq_len": "importer"})
        from_importer.append("sequence length")
    precision_text, dataset_text = (
        cells.settings.get(key) or stated(by_name.get(key)) or stated(contents.text("general", key))
        for key in ("precision", "dataset")
    )
    heading = table.heading if group is None and library_match.model_name(table.heading, None, known) else None
    model_text = stated(by_name.get("model")) or contents.text("general", "model") or heading
    model = library_match.model_name(model_text, group, known)
    if model is None and stated_facts.model and (own_model or withheld(model_text or "")):
        model = stated_facts.model
        from_importer.append("model")
    case = library_match.case_of(model, document.framework, known)
    precision = precision_in(precision_text)
    if withheld(precision_text or "") and stated_facts.precision:
        precision = stated_facts.precision
        from_importer.append("precision")
    if stated_facts.lora is not None:
        from_importer.append("lora")
    texts = (dataset_text, *(note.text for note in document.datasets))
    datasets = [found for text in texts if text and (found := library_match.dataset_name(text, known))]
    own_dataset = case.contract.dataset if case else None  # if the document names it anywhere
    dataset = own_dataset if own_dataset in datasets else next(iter(datasets), None)
    free = row_settings.free_settings(cells, contents, precision, dataset)
    general = {"contract.precision": precision_in(stated(contents.text("general", "precision")))}
    defaults = library_match.settings_by_path(document.defaults, document.strategy, None, general)
    own = library_match.settings_by_path(batch, layout, where, free)
    changes = library_match.departures(own, batch.origins, case, defaults)
    for text, reason in (*machine_problems(where, by_name), *cells.problems, *problems):
        contents.missing(row.line, text, reason)
    return PublishedRow(
        line=row.line,
        table=index,
        row=number,
        group=group,
        model=model,
        model_text=model_text,
        case=case.name if case else None,
        framework=document.framework,
        variant=any(change.contract for change in changes),
        fix_hp=changes,
        fix_hp_text=by_name.get("fix_hp"),
        claims=tuple(cells.claims),
        options=cells.options,
        configuration_name=name,
        hardware=where,
        parallelism=layout,
        parallel_text=by_name.get("parallel"),
        batch=batch,
        precision=precision,  # type: ignore[arg-type]
        precision_text=precision_text,
        dataset=dataset,
        dataset_text=dataset_text,
        metrics=metrics,
        lora=stated_facts.lora,
        stated=tuple(from_importer),
    )
