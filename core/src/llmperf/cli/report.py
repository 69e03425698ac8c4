"""`llmperf report`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.colour import painted, painted_severities, warn
from llmperf.cli.completion import report_formats
from llmperf.cli.open_command import CalledCommand, OpenCommand
from llmperf.cli.options import paths_argument
from llmperf.cli.output import language_option, page_width, verbose_option, wide_option

if TYPE_CHECKING:
    from llmperf.plugins.discovery import Found
    from llmperf.plugins.loading import Plugins
    from llmperf.types import Reporter, Sheet


EXAMPLES = """\b
Examples:
  llmperf report runs/ID                              the result table again
  llmperf report runs/                                several runs, one a row, by model, the fastest first
  llmperf report runs/ID --format markdown --lang zh  a README as the published ones
  llmperf report runs/* --format csv -o runs.csv
  llmperf report runs/* --format html -o runs.html
  llmperf report published/                           imported documents, a row for each result
"""


class CalledReport(CalledCommand):
    """Implements `llmperf.types.CalledReport`."""

    def __init__(self, ctx: click.Context) -> None:
        super().__init__(ctx)
        self.changes: list[Callable[[list[Sheet]], list[Sheet]]] = []
        self.notes: list[str] = []

    def change_sheets(self, change: Callable[[list[Sheet]], list[Sheet]]) -> None:
        """Have the sheets changed before the report is made."""
        self.changes.append(change)

    def add_note(self, line: str) -> None:
        """Print a line below the report on a terminal."""
        self.notes.append(line)


class ReportCommand(OpenCommand):
    """`llmperf report`, to which plugins add options and rows."""

    called = CalledReport


@click.command("report", cls=ReportCommand, epilog=EXAMPLES)
@paths_argument()
@click.option("--format", "wanted", metavar="NAME", default="terminal", show_default=True,
              shell_complete=report_formats,
              help="terminal, markdown, csv, json, or the format of a plugin, such as html.")  # fmt: skip
@click.option("--json", "wanted", flag_value="json", help="The same as --format json.")
@language_option
@wide_option
@verbose_option
@click.option("-o", "--out", "output", metavar="FILE", type=click.Path(path_type=Path), help="Write to a file.")
@click.pass_obj
def command(
    called: CalledReport,
    paths: tuple[Path, ...],
    wanted: str,
    language: str,
    wide: bool,
    verbose: bool,
    output: Path | None,
) -> None:
    """Render results as a table or a document. PATH is a run folder, a result.json, a folder of runs, or an
    archive of `llmperf pack`.

    The table of several runs fits the terminal and names the columns that it leaves out; with --wide, in a file or in a
    pipe it has all of them.

    Imported documents (`llmperf import`) are shown too; in Markdown their tables are as they were printed.
    """
    gc.disable()  # sheets have no cycles; looking for cycles in thousands of them takes a third of the time
    try:
        from llmperf.reporting.reported_documents import report_sheets
        from llmperf.reporting.terminal import TerminalReporter

        sheets, plugins = report_sheets(paths, warn)
        for line in plugins.left_out:
            warn(f"left out: {line}")
        for change in called.changes:
            sheets = change(sheets)
        if wanted == "terminal" and output is None:
            text = painted_severities(
                TerminalReporter(width=page_width(wide), paint=painted, verbose=verbose).render(sheets, language)
            )
            click.echo(text + "".join(f"\n{line}\n" for line in called.notes), nl=False)
        else:
            write_report(sheets, wanted, language, output, plugins)
    finally:
        gc.enable()


def write_report(
    sheets: Sequence[Sheet],
    wanted: str,
    language: str = "en",
    output: Path | None = None,
    plugins: Plugins | None = None,
) -> None:
    """Write the report of sheets in a format of `plugins`, by default of extensions, to a file, or print it."""
    from llmperf.files.json_files import write_bytes
    from llmperf.plugins.faults import blaming, of_kind
    from llmperf.plugins.loading import plugins_for

    owner, reporter = _named(plugins_for() if plugins is None else plugins, wanted)
    with blaming(owner, f"the {wanted} reporter"):
        text = of_kind(owner, f"the {wanted} reporter", reporter.render(sheets, language), str)
    data = text.encode("utf-8", "backslashreplace")
    if output is None:
        click.echo(data.decode(), nl=False)
    else:
        write_bytes(output, data)


def _named(plugins: Plugins, wanted: str) -> tuple[Found, Reporter]:
    """The reporter of a name and the plugin that provides it; UserError if no plugin provides it, or several."""
    from llmperf.errors import PluginError, UserError, unknown
    from llmperf.plugins.discovery import discover
    from llmperf.plugins.faults import blaming, who
    from llmperf.plugins.loading import plugins_for
    from llmperf.plugins.own_packages import published

    faults: list[str] = []
    reporters: dict[str, list[tuple[Found, Reporter]]] = {}
    for key, reporter in plugins.collect_sound("llmperf_reporters", faults):
        owner = plugins.found(key)
        with blaming(owner, "llmperf_reporters"):  # its name may be a property that raises
            problem = _problem(reporter)
        if problem:
            faults.append(f"{who(owner)}: llmperf_reporters gave {problem}")
        else:
            reporters.setdefault(reporter.name, []).append((owner, reporter))
    providers = reporters.get(wanted, [])
    for fault in faults if providers else ():
        warn(f"left out: {fault}")
    owners = [who(found) for found, _ in providers]
    if providers and (len(providers) == 1 or providers[0][0].role == "core"):
        for rival in owners[1:]:
            warn(f"reporter {wanted!r} of {rival} is not used: llmperf-core has a reporter of this name")
        return providers[0]
    if len(set(owners)) == 1:
        raise PluginError(f"{owners[0]}: llmperf_reporters gave two reporters named {wanted!r}")
    if providers:
        raise PluginError(f"two reporters are named {wanted!r}: of {' and of '.join(owners)}")
    if faults:
        raise PluginError(faults[0])
    if (package := published().get(("extension", wanted))) is not None:
        from llmperf.plugins.mending import install_own

        raise UserError(f"--format {wanted}: {package} has this format; install it with: {install_own(package)}")
    installed = discover()  # vendors and frameworks, which are loaded only for documents that name them, may have it
    all_plugins = plugins_for([(found.role, found.name) for found in installed], installed)
    others = [
        all_plugins.who(key)
        for key, reporter in all_plugins.collect_sound("llmperf_reporters", [])
        if getattr(reporter, "name", None) == wanted
    ]
    if others:
        raise UserError(f"--format {wanted}: offered by {' and '.join(others)} only, for documents that name it")
    raise unknown("--format", "format", wanted, reporters)


def _problem(reporter: Any) -> str | None:
    """The reason why an object is no reporter; None if it is one."""
    if isinstance(reporter, type):
        return f"a class, {reporter.__name__}; expected an instance: {reporter.__name__}()"
    name = getattr(reporter, "name", None)
    if not callable(getattr(reporter, "render", None)) or name is None:
        return f"{reporter!r:.200}, which is no reporter"
    return None if isinstance(name, str) else f"a reporter whose name is {name!r:.80}; expected text"
