"""`llmperf validate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmperf.cli.output import json_option, print_json

if TYPE_CHECKING:
    from llmperf.plugins import Plugins
    from llmperf.validation.check import FileFindings

EXAMPLES = """\b
Examples:
  llmperf validate runs/                       everything in a folder
  llmperf validate runs/ID/result.json         one result, and the plan and records beside it
  llmperf validate cases/mine.toml models/mine.toml
  llmperf validate --json runs/ | jq '.[].findings[].code'
\b
Each line is  path:/json/pointer: CODE severity message
What a code means stands in docs/rules/CODE.md.
"""


@click.command("validate", epilog=EXAMPLES)
@click.argument("paths", metavar="FILE|DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
@click.pass_context
def command(ctx: click.Context, paths: tuple[Path, ...], as_json: bool) -> None:
    """Check results, plans, records, cases and models: their schema, then whether their figures agree.

    A result in its run folder is computed again from its records. Exits with 0, 1 if there are errors (warnings
    do not count), 2 if something cannot be read.
    """
    from llmperf.validation.check import validate_path

    plugins = _plugins()
    files = [file for path in paths for file in validate_path(path, plugins)]
    if as_json:
        print_json([_document(file) for file in files])
    else:
        _print(files)
    ctx.exit(2 if any(file.unreadable for file in files) else 1 if any(file.failed for file in files) else 0)


def _plugins() -> Plugins | None:
    """Installed extensions; a broken one does not keep documents from being checked."""
    from llmperf.errors import PluginError
    from llmperf.plugins import load_for

    try:
        return load_for(None, None)
    except PluginError as error:
        click.echo(f"llmperf: warning: rules of extensions are not applied: {error}", err=True)
        return None


def _document(file: FileFindings) -> dict[str, object]:
    from llmperf.validation.reading import encodable

    return {"path": encodable(str(file.path)), "kind": file.kind, "findings": file.findings}


def _print(files: list[FileFindings]) -> None:
    from llmperf.validation.catalogue import RULESET
    from llmperf.validation.reading import printable

    for file in files:
        for one in file.findings:
            click.echo(printable(f"{file.path}:{one.path}: {one.code} {one.severity} {one.message}"))
    told = [one.severity for file in files for one in file.findings]
    counts = ", ".join(f"{told.count(severity)} {severity}s" for severity in ("error", "warning"))
    number = f"{len(files)} {'file' if len(files) == 1 else 'files'}"
    click.echo(f"{number}: {counts} (ruleset {RULESET})", err=True)
