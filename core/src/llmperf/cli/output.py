"""Output of commands: tables for people, JSON for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.colour import painted, warn

if TYPE_CHECKING:
    from llmperf.reporting.text_table import Column
    from llmperf.types import Result

language_option = click.option(
    "--lang", "language", type=click.Choice(["en", "zh"]), default="en", show_default=True,
    help="Language of the headings.",
)  # fmt: skip
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    from llmperf.files.json_files import encode_pretty

    click.echo(encode_pretty(document).decode(), nl=False)


wide_option = click.option("--wide", is_flag=True, help="Show every column, however wide the terminal is.")


def page_width(wide: bool = False) -> int | None:
    """Columns of the terminal that standard output is; None where there is no limit."""
    if wide or not sys.stdout.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None


def print_table(
    headers: Sequence[str | Column], rows: Iterable[Sequence[Any]], wide: bool = False, remedy: str = "--json"
) -> None:
    """A plain table within the width of the terminal; None is shown as a dash.

    `remedy` says how to see columns for which there is no room.
    """
    from llmperf.reporting.terminal import left_out_text
    from llmperf.reporting.text_table import Column, laid_out

    columns = [
        Column(title=header, importance=place, wraps=16) if isinstance(header, str) else header
        for place, header in enumerate(headers, start=1)
    ]
    shown = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    table = laid_out(columns, shown, page_width(wide), painted)
    click.echo(table.text)
    if table.left_out or table.cut:
        click.echo(f"\n{left_out_text(table, 'en', remedy)}")


def distinct_results(results: Iterable[tuple[Path, Result]]) -> tuple[Result, ...]:
    """The results of different runs; a warning on standard error names each copy that is left out."""
    from llmperf.files.text import printable
    from llmperf.results.groups import distinct

    runs = distinct(results)
    for copy, first in runs.copies:
        warn(printable(f"counted once: {copy} is the same run as {first}"))
    return runs.results


def gib(count: float | None) -> str | None:
    """Bytes as GiB."""
    return None if count is None else f"{count / 2**30:.2f} GiB"


def big(number: float | None) -> str | None:
    """A number with digit groups, or in powers of ten above 10^12."""
    if number is None:
        return None
    return f"{number:.4g}" if number >= 1e12 else f"{number:,.0f}"


def say_left_out(lines: Iterable[str]) -> None:
    """Print on standard error what could not be used."""
    for line in lines:
        click.echo(f"left out: {line}", err=True)
