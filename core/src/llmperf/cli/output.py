"""Output of commands: tables for people, JSON for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from llmperf.cli.colour import painted
from llmperf.reporting.language import headings_option as headings_option
from llmperf.reporting.language import language_option as language_option
from llmperf.reporting.language import reader_language

if TYPE_CHECKING:
    from llmperf.types.sheet import Column

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


class _UntilReaderEnds:
    """A text stream that discards its text when nobody reads it any more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._read = True

    def write(self, text: str) -> int:
        if self._read:
            try:
                return self._stream.write(text)
            except BrokenPipeError:
                self._read = False
        return len(text)

    def flush(self) -> None:
        if self._read:
            try:
                self._stream.flush()
            except BrokenPipeError:
                self._read = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def without_readers() -> Iterator[None]:
    """Go on when the reader of standard output or standard error ends, such as `head`: a run is worth more."""
    streams: tuple[Any, Any] = (sys.stdout, sys.stderr)
    sys.stdout, sys.stderr = (stream and _UntilReaderEnds(stream) for stream in streams)
    try:
        yield
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        sys.stdout, sys.stderr = streams


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    from llmperf.files.json_files import encode_pretty

    click.echo(encode_pretty(document).decode(), nl=False)


verbose_option = click.option("-v", "--verbose", is_flag=True, help="Show every figure of a run.")
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


def print_text(text: str, nl: bool = True) -> None:
    """Lines within the width of the terminal."""
    if (width := page_width()) is not None:
        from llmperf.reporting.text_table import fitted

        text = fitted(text, width)
    click.echo(text, nl=nl)


def print_facts(known: Sequence[tuple[str, str]]) -> None:
    """One fact per line, its name in the reader's language before its value."""
    from llmperf.reporting.text_table import columns_of
    from llmperf.reporting.words import recorded

    language = reader_language()
    lines = [(recorded(name, language), value) for name, value in known]
    width = max(columns_of(name) for name, _ in lines)
    print_text("\n".join(f"{name}{' ' * (width - columns_of(name))}  {value}" for name, value in lines))


def print_table(
    headers: Sequence[str | Column],
    rows: Iterable[Sequence[Any]],
    wide: bool = False,
    remedy: str = "--json",
) -> None:
    """A plain table within the width of the terminal, its headings in the reader's language; None is a dash.

    `remedy` says how to see columns without room.
    """
    from dataclasses import replace

    from llmperf.reporting.terminal import left_out_text
    from llmperf.reporting.text_table import laid_out
    from llmperf.reporting.words import word
    from llmperf.types.sheet import Column

    language = reader_language()
    columns = [
        Column(title=word(header, language), importance=place, wraps=16)
        if isinstance(header, str)
        else replace(header, title=word(header.title, language))
        for place, header in enumerate(headers, start=1)
    ]
    shown = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    table = laid_out(columns, shown, page_width(wide), painted)
    click.echo(table.text)
    for line in left_out_text(table, language, remedy):
        print_text(f"\n{line}")
