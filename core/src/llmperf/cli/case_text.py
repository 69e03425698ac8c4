"""One case as `llmperf cases NAME` shows it: what it is, and every path of `--set` with its value."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import click

from llmperf.cases.settings import FREE, describe, full_path, known_paths
from llmperf.cli.colour import painted
from llmperf.cli.output import page_width, print_table
from llmperf.types.sheet import Column
from llmperf.types.spec import Case

PARTS = {
    "contract": "what is measured: a change makes the result a variant of the case",
    "tuning": "how it is run: free to change, and recorded",
    "data": "where the tokens are",
    "framework": "options of the framework plugin, which checks them",
}
"""The first part of each path, and what it decides."""
COLUMNS = (
    Column(title="--set", importance=1),
    Column(title="value", importance=2, wraps=16),
    Column(title="takes", importance=3, wraps=16),
)
WIDTH = 100
"""Columns of a description where no terminal gives a width."""


def settings_of(case: Case) -> list[dict[str, Any]]:
    """Each path that can be set: its name for `--set`, its value in the case, and what it takes."""
    settings = []
    for path, annotation in known_paths().items():
        rest = path.partition(".")[2]
        value: Any = case
        for name in path.split("."):  # None below a table that the case does not have, such as `contract.lora`
            value = getattr(value, name, None)
        short = rest if full_path(rest, path) == path else path  # `optimizer.lr`, unless that alone means another
        settings.append({"path": path, "set": short, "value": value, "takes": describe(annotation)})
    for name, value in case.framework.items():
        path = f"{FREE}{name}"
        settings.append({"path": path, "set": path, "value": value, "takes": "an option of the framework"})
    return settings


def print_case(case: Case) -> None:
    """The case for people."""
    width = page_width() or WIDTH
    for name, text in (("case", case.name), ("title", case.title), ("source", case.source)):
        lines = wrap(text, width - 8) or ["-"]
        click.echo("\n".join(f"{name if place == 0 else '':<8}{line}" for place, line in enumerate(lines)))
    click.echo("\n" + "\n".join(wrap(" ".join(case.description.split()), width) or ["-"]))
    settings = settings_of(case)
    for part, meaning in PARTS.items():
        rows = [setting for setting in settings if setting["path"].split(".")[0] == part]
        if rows:
            click.echo(f"\n{click.style(part, bold=True)}: {painted('context', meaning)}")
            print_table(COLUMNS, [(row["set"], _text(row["value"]), row["takes"]) for row in rows])
    click.echo(f"\nExample: llmperf run {case.name} --set steps={2 * case.contract.steps}")


def _text(value: Any) -> str:
    """A value as `--set` takes it."""
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(f'"{item}"' if isinstance(item, str) else str(item) for item in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
