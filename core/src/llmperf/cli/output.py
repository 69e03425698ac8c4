"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from llmperf.types import Result

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    from llmperf.documents import encode_pretty

    click.echo(encode_pretty(document).decode(), nl=False)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A plain table; None is shown as a dash."""
    from tabulate import tabulate

    shown = [["-" if cell is None else cell for cell in row] for row in rows]
    click.echo(tabulate(shown, headers=headers, tablefmt="simple", disable_numparse=True))


def said_once(found: Iterable[tuple[Path, Result]]) -> tuple[Result, ...]:
    """The results of different runs; that copies of them are left out is told on standard error."""
    from llmperf.results.copies import distinct
    from llmperf.validation.reading import printable

    runs = distinct(found)
    for copy, first in runs.copies:
        click.echo(printable(f"llmperf: warning: counted once: {copy} is the same run as {first}"), err=True)
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
    """Tell on standard error what could not be used."""
    for line in lines:
        click.echo(f"left out: {line}", err=True)


def case_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion for CASE."""
    from llmperf.cases.library import whole_library

    return [name for name in whole_library().paths("cases") if name.startswith(incomplete)]


def plugin_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion for --vendor and --framework."""
    from llmperf.discovery import discover

    return [one.name for one in discover() if one.role == param.name and one.name.startswith(incomplete)]
