"""`llmperf report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.colour import painted, painted_severities, warn
from llmperf.cli.output import page_width, wide_option

if TYPE_CHECKING:
    from llmperf.errors import UserError
    from llmperf.plugins.discovery import Found
    from llmperf.plugins.loading import Plugins


EXAMPLES = """\b
Examples:
  llmperf report runs/ID                              the result table again
  llmperf report runs/                                several runs, one a row, by model, the fastest first
  llmperf report runs/ID --format markdown --lang zh  a README as the published ones
  llmperf report runs/* --format csv -o runs.csv
  llmperf report runs/* --format html -o runs.html
  llmperf report published/                           imported documents, a row for each result
"""


@click.command("report", epilog=EXAMPLES)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "wanted", metavar="NAME", default="terminal", show_default=True,
              help="terminal, markdown, csv, json, html, or what an extension adds.")  # fmt: skip
@click.option("--json", "wanted", flag_value="json", help="The same as --format json.")
@click.option("--lang", "language", type=click.Choice(["en", "zh"]), default="en", show_default=True,
              help="Of the headings.")  # fmt: skip
@wide_option
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to a file.")
def command(paths: tuple[Path, ...], wanted: str, language: str, wide: bool, output: Path | None) -> None:
    """Render results as a table or a document. PATH is a run folder, a result.json, or a folder of runs.

    The table of several runs fits the terminal and names the columns that it leaves out; with --wide, in a file or in a
    pipe it has all of them.

    What `llmperf import` has written is shown too, its tables as they were printed.
    """
    from llmperf.files.json_files import write_bytes
    from llmperf.plugins.faults import blaming, of_kind
    from llmperf.plugins.loading import load_for
    from llmperf.validation.reading_results import found_reportable

    results, published = found_reportable(paths, _left_out)
    plugins = load_for(None, None)
    for line in plugins.left_out:
        _left_out(line)
    owner, reporter = _named(plugins, wanted)
    if wanted == "terminal":
        from llmperf_published.reporting.reports import terminal

        width = page_width(wide) if output is None else None
        text = painted_severities(terminal(results, published, language, width, painted))
    elif published:
        from llmperf_published.reporting.reports import render

        text = render(wanted, results, published, language)
    else:
        with blaming(owner, f"the {wanted} reporter"):
            text = of_kind(owner, f"the {wanted} reporter", reporter.render(results, language), str)
    if output is None:
        click.echo(text, nl=False)
    else:
        text = click.unstyle(text) if wanted == "terminal" else text
        write_bytes(output, text.encode("utf-8", "backslashreplace"))


def _left_out(what: UserError | str) -> None:
    warn(f"left out: {what}")


def _named(plugins: Plugins, wanted: str) -> tuple[Found, Any]:
    """The first reporter of a name, with the plugin that has it."""
    from llmperf.errors import PluginError, unknown
    from llmperf.plugins.faults import who

    known = []
    for owner, one in plugins.collect_items("llmperf_reporters"):
        name = getattr(one, "name", None)
        if not isinstance(name, str) or not callable(getattr(one, "render", None)):
            raise PluginError(f"{who(plugins.found(owner))}: llmperf_reporters gave {one!r}, which is no reporter")
        if name == wanted:
            return plugins.found(owner), one
        known.append(name)
    raise unknown("--format", "format", wanted, known)
