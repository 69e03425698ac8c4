"""`llmperf import`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.output import json_option, print_json, print_table

if TYPE_CHECKING:
    from llmperf.importing.files import Imported

EXAMPLES = """\b
Examples:
  llmperf import README.md --out imported                 one document, to imported/FOLDER/published.json
  llmperf import */README.md --out imported               many, a folder each, named by the folder of the README
  llmperf import results.md --out imported --force --json  again, and what was found as JSON
  llmperf validate imported                               whether the figures hold
  llmperf report imported --format markdown --lang zh     the tables again
"""


@click.command("import", epilog=EXAMPLES)
@click.argument("sources", metavar="README.md...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", metavar="DIR", required=True, type=click.Path(path_type=Path, file_okay=False),
              help="Where each document gets a folder.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace what was imported there before.")
@json_option
def command(sources: tuple[Path, ...], out: Path, force: bool, as_json: bool) -> None:
    """Read published Markdown tables, Chinese or English, into results with the provenance `imported`.

    What is not understood is told on standard error with its line, and stands in the document that is written. All
    documents are written or none.
    """
    from llmperf.cases.library import library
    from llmperf.importing.files import import_files

    imported = import_files(sources, out, library(), force)
    if as_json:
        print_json([_document(one) for one in imported])
    else:
        headers = ("document", "results", "cases", "not understood", "written to")
        print_table(headers, map(_row, imported))
    _tell(imported)


def _document(one: Imported) -> dict[str, Any]:
    rows = [
        {"line": row.line, "case": row.case, "model": row.model, "variant": row.variant} for row in one.published.rows
    ]
    paths = {"source": str(one.source), "target": str(one.target)}
    return {**paths, "rows": rows, "notes": len(one.published.notes), "unread": one.published.unread}


def _row(one: Imported) -> Sequence[Any]:
    from llmperf.validation.reading import printable

    cases = sorted({row.case for row in one.published.rows if row.case})
    shown = (str(one.source), len(one.published.rows), ", ".join(cases) or None, len(one.published.unread))
    return [printable(cell) if isinstance(cell, str) else cell for cell in (*shown, str(one.target))]


def _tell(imported: Sequence[Imported]) -> None:
    """What was not understood, a line each, as linters print it."""
    from llmperf.reporting.cells import printable

    for one in imported:
        for missing in one.published.unread:
            told = f"{one.source}:{missing.line}: {missing.reason}: {printable(missing.text, 120)}"
            click.echo(printable(told, 1000), err=True)
