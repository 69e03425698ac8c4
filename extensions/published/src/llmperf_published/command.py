"""Read published Markdown tables into results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from llmperf.cli.output import json_option, print_json, print_table

if TYPE_CHECKING:
    from llmperf_published.reading.files import Imported
    from llmperf_published.rules.verdicts import Verdict

EXAMPLES = """\b
Examples:
  llmperf import README.md --out imported                 one document, to imported/FOLDER/published.json
  llmperf import */README.md --out imported               many, a folder each, named by the folder of the README
  llmperf import results.md --out imported --force --json  again, with a verdict on each row, as JSON
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
    """Read published Markdown tables, Chinese or English, and write what each document says as published.json.

    It is not a result: nothing in it was measured by llmperf. Text that is not understood is listed on standard error
    with its line, and under `unread` in the document. All documents are written or none.

    Each row agrees (throughput x FLOPs per token / peak is its MFU), is wrong, or was not checked; --json gives the
    reason of each.
    """
    from llmperf.cases.library import library

    from llmperf_published.reading.files import import_files
    from llmperf_published.rules.verdicts import closing, judged

    imported = import_files(sources, out, library(), force)
    verdicts = [judged(one.published)[1] for one in imported]
    if as_json:
        print_json([_document(*one) for one in zip(imported, verdicts, strict=True)])
    else:
        headers = ("document", "rows", "agree", "wrong", "not checked", "vendor", "models", "cases", "not understood",
                   "written to")  # fmt: skip
        print_table(headers, map(_row, imported, verdicts))
        click.echo(closing([verdict for found in verdicts for verdict in found]))
    _tell(imported)


def _document(one: Imported, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    rows = [
        {"case": row.case, "model": row.model, "variant": row.variant, **verdict.document()}
        for row, verdict in zip(one.published.rows, verdicts, strict=True)
    ]
    paths = {"source": str(one.source), "target": str(one.target), "vendor": one.published.vendor}
    return {**paths, "rows": rows, "notes": len(one.published.notes), "unread": one.published.unread}


def _row(one: Imported, verdicts: Sequence[Verdict]) -> Sequence[Any]:
    from llmperf.validation.reading import printable

    from llmperf_published.rules.verdicts import counted

    published, count = one.published, counted(verdicts)
    cases = sorted({row.case for row in published.rows if row.case})
    models = dict.fromkeys(row.model or row.model_text or "unknown" for row in published.rows)
    checked = (count["agrees"], count["wrong"], count["not checked"])
    texts = (published.vendor, ", ".join(models), ", ".join(cases) or None)
    shown = (str(one.source), len(published.rows), *checked, *texts, len(published.unread), str(one.target))
    return [printable(cell) if isinstance(cell, str) else cell for cell in shown]


def _tell(imported: Sequence[Imported]) -> None:
    """What was not understood, a line each, as linters print it."""
    from llmperf.reporting.cells import printable

    for one in imported:
        for missing in one.published.unread:
            told = f"{one.source}:{missing.line}: {missing.reason}: {printable(missing.text, 120)}"
            click.echo(printable(told, 1000), err=True)
