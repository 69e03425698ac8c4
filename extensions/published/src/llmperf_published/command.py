"""Read published tables (Markdown, CSV, xlsx), Chinese or English, and check their figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from llmperf import headings_option, json_option, print_json, print_table

if TYPE_CHECKING:
    from llmperf_published.reading.files import Imported
    from llmperf_published.types.row import OwnFacts

MAX_OTHER_LINES = 8
"""Unread lines of a document that are listed although they are not about its results."""
EXAMPLES = """\b
Examples:
  llmperf import README.md --out imported                 one document, to imported/FOLDER/published.json
  llmperf import */README.md --out imported               several, each to a folder named after the README's folder
  llmperf import documents/ --out imported                every Markdown file with results in a folder
  llmperf import results.md --out imported --force --json  again, with a verdict on each row, as JSON
  llmperf import a.md --out imported --peaks my_peaks.toml --model my_model.toml
                                                          with a device and a model that llmperf does not have
  llmperf import a.md --out imported --device A100-SXM4-80GB --precision bf16
                                                          with what the document does not say
  llmperf import results.csv --propose > mine.toml        a reading profile, with what is missing marked
  llmperf import results.csv --out imported --profile mine.toml
                                                          by a profile: titles of columns, and what they leave out
  llmperf validate imported                               check the figures
  llmperf report imported --format markdown --lang zh     print the tables again
"""


@click.command("import", epilog=EXAMPLES)
@click.argument(
    "sources", metavar="README.md|FILE.csv|FILE.xlsx|DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("-o", "--out", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
              default=Path("imported"), show_default=True, help="In which each document gets a folder.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace files of an earlier import.")
@click.option("--peaks", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Your own peaks of devices that no installed package has, as in a vendor's peaks.toml.")  # fmt: skip
@click.option("--model", "models", metavar="NAME|FILE", multiple=True,
              help="The model of rows that name none, or a file of your own that the library does not have;"
                   " may be repeated.")  # fmt: skip
@click.option("--vendor", metavar="NAME", help="The vendor of the devices, if the document names none.")
@click.option("--device", metavar="NAME", help="The device of rows that name none.")
@click.option("--devices", metavar="N|NxM", help="How many devices, or nodes x devices, rows have that name none.")
@click.option("--precision", metavar="NAME", help="The precision of rows that name none: bf16, fp16, tf32, fp32.")
@click.option("--sequence-length", metavar="N", help="The sequence length of rows that name none: 4096, 4k.")
@click.option("--global-batch", metavar="N", help="Sequences of a step, of logs that do not print it.")
@click.option("--profile", "profile_file", metavar="FILE|NAME",
              help="How columns are read and what rows leave out (TOML), a shipped profile, or a log's.")  # fmt: skip
@click.option("--propose", is_flag=True, help="Print a profile for one document instead of importing it.")
@headings_option
@json_option
def command(
    sources: tuple[Path, ...],
    out: Path,
    force: bool,
    peaks: Path | None,
    models: tuple[str, ...],
    profile_file: str | None,
    propose: bool,
    as_json: bool,
    **statements: str | None,
) -> None:
    """Read published tables of Markdown, CSV or xlsx, Chinese or English, and write each document as published.json.

    The file is not a result: llmperf measured nothing in it. Text that is not understood is listed with its line on
    standard error, and under `unread` in the document. Either all documents are written or none; Markdown files without
    results are skipped in a folder, and an error where they are named.

    Each row gets a verdict: it agrees (throughput x FLOPs per token / peak is its MFU), is wrong, or was not checked.
    --json gives the reasons. Peaks and models of your own, and what options or a profile state of rows that leave it
    out, become part of the imported document, and every verdict that used them says so.
    """
    from llmperf import printable
    from llmperf.errors import UserError
    from llmperf.validation import known_library

    from llmperf_published.importers import read_by_others
    from llmperf_published.reading.files import import_files, published_in
    from llmperf_published.reading.markdown import plain
    from llmperf_published.reading.own_facts import own_facts
    from llmperf_published.reading.profile import Profile, fitting, named, proposal
    from llmperf_published.reading.vocabulary import squeezed
    from llmperf_published.rules.vendors import is_comparison, vendor_of, vendors
    from llmperf_published.rules.verdicts import closing, judged

    if propose:
        click.echo(proposal(published_in(sources, known_library())))
        return
    said = {**statements, "model": models[0] if models else None, "profile": profile_file}
    sources = read_by_others(sources, out, said, force=force, as_json=as_json)
    if not sources:
        return
    profile = None if profile_file is None else Profile.read(named(profile_file))
    if statements.pop("global_batch") is not None:
        raise UserError(f"--global-batch: expected logs, found {sources[0]}")
    own = own_facts(peaks, models, known_library(), statements, profile)
    titles = profile.titles if profile else {}
    imported, skipped, without = import_files(sources, out, known_library(), force, own, titles)
    verdicts = [judged(document.published)[1] for document in imported]
    listed: list[dict[str, Any]] = []
    cells: list[list[Any]] = []
    for document, judgements in zip(imported, verdicts, strict=True):
        published, count = document.published, Counter(one.outcome for one in judgements)
        paths = str(document.source), str(document.target)
        whose = None if is_comparison(published) else published.vendor
        rows = [
            {"case": row.case, "vendor": vendor_of(published, row), "model": row.model, "variant": row.variant}
            | verdict.document()
            for row, verdict in zip(published.rows, judgements, strict=True)
        ]
        listed.append({"source": paths[0], "target": paths[1], "vendor": whose, "rows": rows,
                       "notes": len(published.notes), "unread": published.unread})  # fmt: skip
        cases = sorted({row.case for row in published.rows if row.case})
        names = dict.fromkeys(row.model or row.model_text or "unknown" for row in published.rows)
        texts = (", ".join(named) or None for named in (vendors(published), names, cases))
        numbers = (paths[0], len(rows), count["agrees"], count["wrong"], count["not checked"], *texts)
        cells.append([printable(cell) if isinstance(cell, str) else cell
                      for cell in (*numbers, len(published.unread), paths[1])])  # fmt: skip
    if as_json:
        print_json(listed)
    else:
        headers = ("document", "rows", "agree", "wrong", "not checked", "vendor", "models", "cases", "not understood",
                   "written to")  # fmt: skip
        print_table(headers, cells)
        click.echo(closing([verdict for judgements in verdicts for verdict in judgements]))
    tables = [(one.source, table) for one in imported for table in one.published.tables]
    for source, table in tables if profile is None or not profile.columns else ():
        shipped = fitting(frozenset(squeezed(column.header) for column in table.columns))
        if shipped is not None:
            click.echo(printable(f"{source}:{table.line}: columns as in the profile {shipped.path.stem}"), err=True)
    for document in imported:
        unread = document.published.unread
        about = [item for item in unread if document.published.is_about_results(item)]
        about = list(unread) if len(unread) - len(about) <= MAX_OTHER_LINES else about
        for item in about:
            text = " ".join(item.text[:121].split())
            text = text if len(text) <= 120 else text[:120] + "..."
            click.echo(printable(f"{document.source}:{item.line}: {item.reason}: {text}"), err=True)
        if more := len(unread) - len(about):
            others = f"{more} more that are not about results, listed under unread in {document.target}"
            click.echo(printable(f"{document.source}: {others}"), err=True)
    for text in skipped:
        click.echo(f"skipped: {printable(text)}", err=True)
    if without:
        click.echo(f"{without} Markdown file{'s' * (without != 1)} without results", err=True)
    model = next((name for name in models if own and own.stated and name == own.stated.model), None)
    for line in _unused(own, {**statements, "model": model}, imported):
        click.echo(printable(line), err=True)
    printed = {squeezed(column.header) for _, table in tables for column in table.columns}
    columns, stated = (profile.columns, profile.rows) if profile else ({}, {})
    performance = [table for _, table in tables if table.kind == "performance"]
    rows_of = [{plain(table.heading), *map(plain, row.cells)} for table in performance for row in table.rows]
    absent = [f"no table has a column {header!r}" for header in columns if squeezed(header) not in printed]
    absent += [f"no row has {key!r}" for key in stated if not any(set(key.split(" | ")) <= row for row in rows_of)]
    for line in absent:
        click.echo(printable(f"{profile_file}: {line}"), err=True)


def _unused(own: OwnFacts | None, options: Mapping[str, str | None], imported: Sequence[Imported]) -> Iterator[str]:
    """A line for each of the user's own devices, models and statements that no row needs."""
    from llmperf_published.reading.own_facts import names_of

    rows = [row for document in imported for row in document.published.rows]
    used = {name for row in rows for name in row.stated}
    for name in ("device", "devices", "model", "precision", "sequence length") if own and own.stated else ():
        if options.get(name.replace(" ", "_")) and name not in used:
            yield f"--{name.replace(' ', '-')}: no row leaves it out"
    devices, models = {row.hardware.device for row in rows}, {row.model for row in rows}
    for device in own.devices if own else ():
        if device.entry.model not in devices:
            yield f"{device.file}: no row is on {' or '.join(names_of(device.entry))}"
    for entry in own.models if own else ():
        if entry.model.name not in models:
            yield f"{entry.file}: no row is on {entry.model.name} or {entry.model.title}"
