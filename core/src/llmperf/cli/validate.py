"""`llmperf validate`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.colour import painted_severities, warn
from llmperf.cli.completion import rule_codes
from llmperf.cli.open_command import CalledCommand, OpenCommand
from llmperf.cli.options import paths_argument
from llmperf.cli.output import language_option, print_text
from llmperf.types.texts import Text

if TYPE_CHECKING:
    from llmperf.types import FileFindings, Finding, Verdict
    from llmperf.types.commands import FurtherChecks
    from llmperf.types.documents import DocumentKind

SEVERITIES = ("error", "warning")
"""Severities that the last line counts."""
SHOWN_LINES = 12
"""Line numbers that one line on rows names."""

EXAMPLES = """\b
Examples:
  llmperf validate runs/                       everything in a folder
  llmperf validate runs/ID/result.json         one result, and the plan and records beside it
  llmperf validate submission.zip              what llmperf pack made, against its manifest
  llmperf validate README.md                   a published document, as llmperf import reads it
  llmperf validate published                   the published documents that llmperf-published ships
  llmperf validate cases/mine.toml models/mine.toml
  llmperf validate runs/ --ignore LP605
  llmperf validate --json runs/ | jq '.[].findings[].code'
  llmperf validate --rules                     all rules, also those of installed plugins
  llmperf validate --explain LP301
\b
Each line is  path:/json/pointer: CODE severity message, of Markdown with the line before the pointer
"""


class Format(click.Choice):  # type: ignore[type-arg]
    """A format of findings: those of packages that are not installed name the package."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name; click's error for an unknown one."""
        command = None if ctx is None or value in self.choices else ctx.command
        if ctx is not None and isinstance(command, OpenCommand) and (error := command.absent(ctx, f"--format {value}")):
            raise error
        return super().convert(value, param, ctx)


def _show_rules(ctx: click.Context, option: click.Parameter, asked: str | bool | None) -> None:
    """Print the page of one rule, or the list of all, of the core or of any installed plugin."""
    if asked is None or asked is False or ctx.resilient_parsing:
        return
    from llmperf.cli.output import print_table
    from llmperf.validation.catalogue import forget_catalogues, whole_catalogue

    forget_catalogues()
    if isinstance(asked, str):
        click.echo(whole_catalogue().page(asked, "--explain"), nl=False)
    else:
        owned = [(each.rule, each.owner.distribution) for each in whole_catalogue().all_rules()]
        rows = [(rule.code, rule.severity, rule.title, ", ".join(rule.kinds), package) for rule, package in owned]
        print_table(("code", "severity", "rule", "checks", "package"), rows)
    ctx.exit()


class CalledValidate(CalledCommand):
    """Implements `llmperf.types.CalledValidate`."""

    def __init__(self, ctx: click.Context) -> None:
        super().__init__(ctx)
        self.further: list[FurtherChecks] = []
        self.endings: list[Callable[[Sequence[FileFindings]], None]] = []

    def check_results(self, check: FurtherChecks) -> None:
        """Apply a check to each result."""
        self.further.append(check)

    def at_end(self, done: Callable[[Sequence[FileFindings]], None]) -> None:
        """Call a function when all files are checked."""
        self.endings.append(done)


class ValidateCommand(OpenCommand):
    """A command to which plugins add checks and formats."""

    called = CalledValidate

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """All parameters; `--format` offers the formats of plugins too."""
        for option in (params := super().get_params(ctx)):
            if isinstance(option.type, Format):
                further = (name for _, group in self.added(ctx).groups for name in group.formats)
                option.type = Format(["text", "json", *further])
        return params


@click.command("validate", cls=ValidateCommand, epilog=EXAMPLES)
@paths_argument()
@click.option("--format", "wanted", type=Format(["text", "json"]), default="text",
              show_default=True, help="Format of the findings.")  # fmt: skip
@click.option("--json", "wanted", flag_value="json", help="The same as --format json.")
@language_option
@click.option("--select", metavar="CODE", multiple=True, shell_complete=rule_codes,
              help="Only rules whose code begins so; may be repeated.")  # fmt: skip
@click.option("--ignore", metavar="CODE", multiple=True, shell_complete=rule_codes,
              help="Not rules whose code begins so; may be repeated.")  # fmt: skip
@click.option("--rules", is_flag=True, expose_value=False, callback=_show_rules,
              help="List all rules, also those of installed plugins.")  # fmt: skip
@click.option("--explain", metavar="CODE", is_eager=True, expose_value=False, callback=_show_rules,
              shell_complete=rule_codes,
              help="Show the page of a rule, with a wrong and a right example.")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    /,
    paths: tuple[Path, ...],
    wanted: str,
    language: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
) -> None:
    """Check results, run folders, submissions, plans, records, cases, models, and documents that extensions read.

    First comes the schema, then whether the figures agree; a result in its run folder is computed again from its
    records. Folders are searched for all of these, except for documents in .txt files, which have to be named; hidden
    folders and links are passed over.

    For published tables, each row gets a verdict: it agrees, it is wrong, or it was not checked and why. A row without
    an error may not have been checked.

    Exits with 0, 1 if there are errors (warnings do not count), 2 if something cannot be read or a plugin fails.
    """
    from llmperf.errors import PluginError, UserError
    from llmperf.plugins.faults import blaming, of_kind
    from llmperf.reporting.words import word
    from llmperf.types.documents import UNREADABLE
    from llmperf.validation.catalogue import forget_catalogues, open_catalogue, whole_catalogue
    from llmperf.validation.check import Validator
    from llmperf.validation.plugin_data import installed_names

    called: CalledValidate = ctx.obj
    forget_catalogues()  # packages may have been installed since this process looked last
    catalogue = open_catalogue()
    kinds = catalogue.kinds
    for fault in catalogue.faults:
        warn(f"left out: {fault}")
    if "verify" not in installed_names("extension"):
        from llmperf.plugins.mending import install_own

        warn(f"llmperf-verify judges claims and is absent; install it with: {install_own('llmperf-verify')}")

    def codes(typed: Sequence[str], option: str) -> tuple[str, ...]:
        """Beginnings of codes; UserError for one with which no code of an installed rule begins."""
        try:
            return catalogue.prefixes(typed, option) if typed else ()
        except UserError:
            return whole_catalogue().prefixes(typed, option)

    select, ignore = codes(select, "--select"), codes(ignore, "--ignore")

    def asked_for(code: str) -> bool:
        code = code.upper()
        return (not select or code.startswith(select)) and not (ignore and code.startswith(ignore))

    validator = Validator(
        catalogue,
        wanted=asked_for,
        further=lambda *result: chain.from_iterable(check(*result) for check in called.further),
    )
    kept: list[FileFindings] = []

    def judged() -> Iterator[FileFindings]:
        """The files with their times and without the findings that were not asked for."""
        begin = perf_counter()
        for path in paths:
            kind = None if path.exists() else kinds.get(str(path))
            shipped = kind and kind.shipped
            for file in validator.validated(shipped or path):
                if shipped and wanted == "text":  # shown by the name that was typed
                    file = replace(file, path=path / file.path.relative_to(shipped))
                if called.endings:
                    kept.append(file)
                asked = (each for each in file.findings if each.code == UNREADABLE or asked_for(each.code))
                yield replace(file, seconds=perf_counter() - begin, findings=tuple(asked))
                begin = perf_counter()

    if wanted == "text":
        code, verdicts = _print_text(judged(), language)
        by_closing: dict[Callable[[Sequence[Verdict]], str], tuple[DocumentKind, list[Verdict]]] = {}
        for kind, rows in verdicts.items():
            if kind in kinds and (closing := kinds[kind].closing) is not None:
                by_closing.setdefault(closing, (kinds[kind], []))[1].extend(rows)
        for closing, (of, rows) in by_closing.items():
            try:
                with blaming(catalogue.owner_of(of), "closing"):
                    line = closing(rows)
            except PluginError as error:
                warn(str(error))
            else:
                click.echo(word(line, language), err=True)
    else:
        checked = list(judged())
        if wanted == "json":
            document = as_json(checked)
        else:
            assert isinstance(ctx.command, ValidateCommand)
            owner, group = next(owned for owned in ctx.command.added(ctx).groups if wanted in owned[1].formats)
            with blaming(owner, what := f"the format {wanted}"):
                document = of_kind(owner, what, group.formats[wanted](checked), str)
        click.echo(document, nl=False)
        code = max(map(_code, checked), default=0)
    for done in called.endings:
        done(kept)
    ctx.exit(2 if catalogue.faults else code)


def as_json(files: Sequence[FileFindings]) -> str:
    """A list of files, each with its kind and its findings; for kinds with rows also the verdict on each row."""
    from llmperf.files.json_files import encode_pretty
    from llmperf.files.text import encodable

    listed = [
        {
            "path": encodable(str(file.path)),
            "kind": file.kind,
            "findings": [
                replace(finding, path=encodable(finding.path), message=encodable(finding.message))
                for finding in file.findings
            ],
            **({"rows": [verdict.document() for verdict in file.verdicts]} if file.verdicts else {}),
        }
        for file in files
    ]
    return encode_pretty(listed).decode()


def text(file: FileFindings, language: str = "en") -> str:
    """One line for each finding, as linters print them: `path:/json/pointer: CODE severity message`."""
    from llmperf.files.text import printable
    from llmperf.reporting.words import recorded, word

    lines = []
    for finding in file.findings:
        place = ":".join(filter(None, [str(file.path), str(file.lines.get(finding.path, "")), finding.path]))
        words = finding.code, word(finding.severity, language), recorded(finding.message, language)
        lines.append(printable(f"{place}: {' '.join(words)}") + "\n")
    return "".join(lines)


def _print_text(files: Iterable[FileFindings], language: str) -> tuple[int, dict[str, list[Verdict]]]:
    """Print findings as they come and their number at the end; returns the exit code and the verdicts by kind."""
    from llmperf.reporting.words import finding_text, sentence, word
    from llmperf.validation.catalogue import RULESET, counted

    verdicts: dict[str, list[Verdict]] = {}
    seen: set[int] = set()  # of results, whose warnings and notes may be of one machine, or of copies of one run
    repeated: dict[int, tuple[Finding, int]] = {}
    exit_code, count, totals = 0, 0, [0, 0]
    for full in files:
        kept = []
        for finding in full.findings:
            key = hash((finding.code, finding.path, finding.message))
            if full.kind == "result" and finding.severity != "error" and key in seen:
                repeated[key] = finding, repeated.get(key, (finding, 0))[1] + 1
                continue
            kept.append(finding)
            seen.update({key} if full.kind == "result" else ())
        file = replace(full, findings=tuple(kept))
        if file.verdicts:
            verdicts.setdefault(file.kind or "", []).extend(file.verdicts)
        print_text(painted_severities(text(file, language)), nl=False)
        for line in _by_outcome(file.verdicts, language):
            click.echo(f"{file.path}: {line}", err=True)
        totals = [total + counted(full.findings, severity) for total, severity in zip(totals, SEVERITIES, strict=True)]
        exit_code, count = max(exit_code, _code(file)), count + 1
        sys.stdout.flush()
    for finding, more in repeated.values():
        template = "in {count} more files: {finding}"
        line = sentence(template, language, count=more, finding=finding_text(finding, language))
        print_text(painted_severities(line))
    counts = zip((count, *totals), ("file", "error", "warning"), strict=True)
    parts = [word(Text(f"{{}} {what}{'s' * (number != 1)}", number), language) for number, what in counts]
    values = dict(zip(("files", "errors", "warnings"), parts, strict=True))
    template = "{files}: {errors}, {warnings} (ruleset {ruleset})"
    click.echo(sentence(template, language, **values, ruleset=RULESET), err=True)
    return exit_code, verdicts


def _by_outcome(verdicts: Sequence[Verdict], language: str) -> Iterator[str]:
    """One line for each outcome and reason, with the lines of the rows."""
    from llmperf.files.text import printable
    from llmperf.reporting.words import recorded, sentence, word

    grouped: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for verdict in verdicts:
        grouped.setdefault((verdict.outcome, verdict.why), []).append(verdict.line)
    for (outcome, why), lines in grouped.items():
        text = "line {lines}: {outcome}: {why}" if len(lines) == 1 else "lines {lines}: {outcome}: {why}"
        if len(lines) > SHOWN_LINES:
            text = "lines {lines} and {more} more: {outcome}: {why}"
        mark = ", " if language == "en" else "、"
        values = {"lines": mark.join(map(str, lines[:SHOWN_LINES])), "outcome": word(outcome, language)}
        values["why"] = word("; ", language).join(recorded(reason, language) for reason in why)
        yield printable(sentence(text, language, **values, more=len(lines) - SHOWN_LINES))


def _code(file: FileFindings) -> int:
    not_applied = any(finding.code == "LP901" for finding in file.findings)
    return 2 if file.unreadable or not_applied else 1 if file.failed else 0
