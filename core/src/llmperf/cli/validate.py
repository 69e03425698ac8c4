"""`llmperf validate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from llmperf.cli.colour import painted_severities, warn

if TYPE_CHECKING:
    from llmperf_published.rules.verdicts import Verdict

    from llmperf.plugins.loading import Plugins
    from llmperf.validation.check import FileFindings

SEVERITIES = ("error", "warning")
"""Those that are counted in the last line."""

EXAMPLES = """\b
Examples:
  llmperf validate runs/                       everything in a folder
  llmperf validate runs/ID/result.json         one result, and the plan and records beside it
  llmperf validate submission.zip              what llmperf pack made, against its manifest
  llmperf validate README.md                   a published document, as llmperf import reads it
  llmperf validate cases/mine.toml models/mine.toml
  llmperf validate runs/ --ignore LP605 --format sarif > findings.sarif
  llmperf validate --json runs/ | jq '.[].findings[].code'
  llmperf validate --explain LP301
\b
Each line is  path:/json/pointer: CODE severity message, of Markdown with the line before the pointer
"""


def _explain(ctx: click.Context, _: click.Parameter, code: str | None) -> None:
    if code is None or ctx.resilient_parsing:
        return
    from llmperf.validation.pages import page

    click.echo(page(code), nl=False)
    ctx.exit()


@click.command("validate", epilog=EXAMPLES)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "wanted", type=click.Choice(["text", "json", "github", "sarif", "junit"]), default="text",
              show_default=True, help="Of the findings.")  # fmt: skip
@click.option("--json", "wanted", flag_value="json", help="The same as --format json.")
@click.option("--select", metavar="CODE", multiple=True, help="Only rules whose code begins so; may be repeated.")
@click.option("--ignore", metavar="CODE", multiple=True, help="Not rules whose code begins so; may be repeated.")
@click.option("--explain", metavar="CODE", is_eager=True, expose_value=False, callback=_explain,
              help="Show the page of a rule, with a wrong and a right example.")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context, paths: tuple[Path, ...], wanted: str, select: tuple[str, ...], ignore: tuple[str, ...]
) -> None:
    """Check results, run folders, submissions, published documents, plans, records, cases and models.

    First their schema, then whether their figures agree; a result in its run folder is computed again from its
    records. In a folder and below it all of these are found, but for documents in .txt, which have to be named; hidden
    folders and links are passed over.

    The rows of a published document are each told to agree, to be wrong, or not to be checked and why; no error is not
    yet a check.

    Exits with 0, 1 if there are errors (warnings do not count), 2 if something cannot be read.
    """
    from llmperf.validation.check import Validator

    plugins = _plugins()
    select, ignore = _codes(select, "--select", plugins), _codes(ignore, "--ignore", plugins)
    validator = Validator(plugins)
    judged = _timed(file for path in paths for file in validator.validated(path))
    found = (_chosen(file, select, ignore) for file in judged)
    ctx.exit(_told(found) if wanted == "text" else _rendered(list(found), wanted))


def _timed(files: Iterable[FileFindings]) -> Iterator[FileFindings]:
    """Files with the time that each took."""
    begin = perf_counter()
    for file in files:
        yield replace(file, seconds=perf_counter() - begin)
        begin = perf_counter()


def _rendered(files: list[FileFindings], wanted: str) -> int:
    """Print a document of all findings; the exit code."""
    from llmperf.reporting.findings import FORMATS

    click.echo(FORMATS[wanted](files), nl=False)
    return max((_code(file) for file in files), default=0)


def _told(files: Iterable[FileFindings]) -> int:
    """Print findings as they come, keeping none of them, and how many there were; the exit code."""
    from llmperf.reporting.findings import text
    from llmperf.validation.catalogue import RULESET
    from llmperf.validation.counting import counted

    number, code, told = 0, 0, Counter[str]()
    rows: list[Verdict] = []
    for file in files:
        click.echo(painted_severities(text([file])), nl=False)
        number, code = number + 1, max(code, _code(file))
        told.update({severity: counted(file.findings, severity) for severity in SEVERITIES})
        rows += file.verdicts
        _tell_rows(file)
    counts = ", ".join(_counted(told[severity], severity) for severity in SEVERITIES)
    click.echo(f"{_counted(number, 'file')}: {counts} (ruleset {RULESET})", err=True)
    if rows:
        from llmperf_published.rules.verdicts import closing

        click.echo(closing(rows), err=True)
    return code


def _tell_rows(file: FileFindings) -> None:
    """On standard error, which rows of a published document agree, are wrong, or were not checked and why."""
    if file.verdicts:
        from llmperf_published.rules.verdicts import by_outcome

        from llmperf.validation.reading import printable

        for line in by_outcome(file.verdicts):
            click.echo(printable(f"{file.path}: {line}"), err=True)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _code(file: FileFindings) -> int:
    return 2 if file.unreadable else 1 if file.failed else 0


def _codes(typed: Sequence[str], option: str, plugins: Plugins | None) -> tuple[str, ...]:
    """Beginnings of codes; UserError for what is the beginning of none."""
    if not typed:
        return ()
    from llmperf.validation.codes import beginnings

    others = plugins is None or bool(plugins.left_out) or plugins.answers("llmperf_check_result")
    return beginnings(typed, option, others)


def _chosen(file: FileFindings, select: tuple[str, ...], ignore: tuple[str, ...]) -> FileFindings:
    """Without the findings that were not asked for; what cannot be read is always told."""
    if not select and not ignore:
        return file
    kept = [one for one in file.findings if one.code == "LP001" or _wanted(one.code, select, ignore)]
    return replace(file, findings=tuple(kept))


def _wanted(code: str, select: tuple[str, ...], ignore: tuple[str, ...]) -> bool:
    code = code.upper()
    return (not select or code.startswith(select)) and not (ignore and code.startswith(ignore))


def _plugins() -> Plugins | None:
    """Installed extensions; a broken one does not keep documents from being checked."""
    from llmperf.errors import PluginError
    from llmperf.plugins.loading import load_for
    from llmperf.validation.devices import installed

    installed.cache_clear()  # more may have been installed since this process looked last
    try:
        plugins = load_for(None, None, installed())
    except PluginError as error:
        warn(f"rules of extensions are not applied: {error}")
        return None
    for line in plugins.left_out:
        warn(f"left out: {line}")
    return plugins
