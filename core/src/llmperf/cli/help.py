"""The text of `llmperf --help`, made without click: importing click takes longer than the rest of the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from textwrap import wrap

COMMANDS = {
    "run": "Train a case on this machine, measure it, and write a checked result.",
    "plan": "Show what would run, and every setting that does not fit.",
    "estimate": "Estimate memory and step time on devices that need not be here.",
    "cases": "List the cases; show one with every setting.",
    "models": "List the models; show or import one, with its parameters and FLOPs.",
    "plugins": "List the installed plugins, with the reason for each broken one.",
    "devices": "List the devices that the vendor plugins find on this machine.",
    "convert": "Re-express a published MFU or throughput in another convention and peak.",
    "peak": "Measure what the devices of this machine achieve: products, memory, collectives.",
    "profile": "Show where the time of a step goes, by the framework's profiler.",
    "validate": "Check results, plans, records, cases and models.",
    "pack": "Pack run folders into a submission: an archive with a manifest.",
    "sign": "Sign results, archives or verifications with an SSH key.",
    "challenge": "Have a run made with a new seed, before a deadline.",
    "report": "Render results as tables or documents.",
    "recover": "Write the result of a run whose llmperf was killed.",
    "compare": "Compare the figures of runs with those of other runs.",
    "summary": "Show the best, median and spread of many runs, by kind.",
    "align": "Compare the loss of runs with a reference, step by step.",
    "doctor": "List what each plugin lacks on this machine, and how to install it.",
    "completion": "Print the completion script of a shell.",
}
"""The commands of core in the order in which a user meets them, and their lines in the help text."""

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
    from llmperf.plugins.commands import packaged_commands

    width = max(min(terminal_columns(), MAX_COLUMNS) - 2, 50)
    extra = {name: command.help_line() for name, command in packaged_commands(without=COMMANDS).items()}
    lines = ["Usage: llmperf [OPTIONS] COMMAND [ARGS]...", ""]
    lines += [*wrap(DESCRIPTION, width, initial_indent="  ", subsequent_indent="  "), ""]
    lines += ["Options:", *definitions(OPTIONS.items(), width), ""]
    lines += ["Commands:", *definitions(COMMANDS.items(), width)]
    if extra:
        lines += ["", "Commands of installed packages:", *definitions(extra.items(), width)]
    return "\n".join([*lines, "", *(f"  {line}" for line in EXAMPLES.splitlines())]) + "\n"


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
