"""The text of `llmperf --help`, made without click: importing click takes longer than the rest of the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from textwrap import wrap

LISTINGS = {"cases", "plugins", "devices", "doctor"}
"""Commands of `llmperf.cli.listings`."""

OPTIONS = {
    "--version": "Show the version.",
    "--color [auto|always|never]": "When to colour the output. [auto: on terminals, unless NO_COLOR is set]",
    "-h, --help": "Show this message and exit.",
}

DESCRIPTION = "Measure how fast an accelerator trains large language models, so that others can trust the figure."

EXAMPLES = """\
Examples:
  llmperf run                           train the default case on this machine
  llmperf run default --framework NAME  the same with another framework
  llmperf plan llama2_7b_pretrain_zero --on A100-SXM4-80GB:1x8
  llmperf validate runs/                check everything in a folder
"""

MAX_COLUMNS = 80


def help_text() -> str:
    """The help text, wrapped to the terminal and to 80 columns at most."""
    from llmperf.plugins.commands import COMMANDS, packaged_commands

    width = max(min(terminal_columns(), MAX_COLUMNS) - 2, 50)
    extra = {name: command.help_line() for name, command in packaged_commands(without=COMMANDS).items()}
    lines = ["Usage: llmperf [OPTIONS] COMMAND [ARGS]...", ""]
    lines += [*wrap(DESCRIPTION, width, initial_indent="  ", subsequent_indent="  "), ""]
    lines += ["Options:", *definitions(OPTIONS.items(), width), ""]
    lines += ["Commands:", *definitions([(name, summary(name)) for name in COMMANDS], width)]
    if extra:
        lines += ["", "Commands of installed packages:", *definitions(extra.items(), width)]
    return "\n".join([*lines, "", *(f"  {line}" for line in EXAMPLES.splitlines())]) + "\n"


def home(name: str) -> tuple[str, str]:
    """The module and the function of a command of core."""
    return ("listings", name) if name in LISTINGS else (name, "command")


def summary(name: str) -> str:
    """The first sentence of the help of a command of core, read from its source: to import all takes 0.1 s."""
    module, function = home(name)
    with open(os.path.join(os.path.dirname(__file__), f"{module}.py"), encoding="utf-8") as source:
        docstring = source.read().partition(f"\ndef {function}(")[2].split('"""', 2)[1]
    first, *_ = " ".join(docstring.split()).partition(". ")
    return f"{first.rstrip('.')}."


def definitions(rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Two columns: terms, and their meanings wrapped beside them."""
    rows = list(rows)
    column = max(len(term) for term, _ in rows) + 4
    for term, meaning in rows:
        first, *rest = wrap(meaning, width - column) or [""]
        yield f"  {term:<{column - 2}}{first}".rstrip()
        yield from (" " * column + line for line in rest)


def terminal_columns() -> int:
    """The columns of the terminal, by COLUMNS or as standard output reports them; 80 without a terminal.

    `shutil.get_terminal_size` gives the same; importing `shutil` takes as long as all of this module.
    """
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    try:
        return columns if columns > 0 else os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return MAX_COLUMNS
