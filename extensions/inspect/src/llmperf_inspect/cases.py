"""List the cases, or show one with every setting that can be changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import llmperf

from llmperf_inspect.models import say_left_out

if TYPE_CHECKING:
    from llmperf.types import Case

EXAMPLES = """\b
Examples:
  llmperf cases
  llmperf cases default          one case: contract, tuning, and every path of --set with its value
  llmperf cases default --json
"""


@click.command("cases", epilog=EXAMPLES)
@click.argument("name", metavar="[NAME]", type=llmperf.Utf8(), required=False, shell_complete=llmperf.case_names)
@llmperf.headings_option
@llmperf.json_option
def command(name: str | None, as_json: bool) -> None:
    """List the cases of the core and of the installed plugins, or show one with every setting that can be changed."""
    from llmperf import builtins, whole_library

    shelf = whole_library()
    if name is not None:
        case = shelf.case(name)
        settings = _settings_of(case)
        if as_json:
            llmperf.print_json({**builtins(case), "settings": settings})
        else:
            _print_case(case, settings)
        return
    listed = shelf.readable("cases", shelf.case)
    say_left_out(shelf.left_out)
    if as_json:
        llmperf.print_json(listed)
        return
    llmperf.print_table(
        ["case", "model", "framework", "scale", "seq_len", "global batch", "precision", "title"],
        [(case.name, case.contract.model, case.tuning.framework, f"{case.tuning.nodes}x{case.tuning.devices}",
          case.contract.seq_len, case.contract.global_batch, case.contract.precision, case.title)
         for case in listed],
    )  # fmt: skip


PARTS = {
    "contract": "what is measured: a change makes the result a variant of the case",
    "tuning": "how it is run: free to change, and recorded",
    "data": "where the tokens are",
    "framework": "options of the framework plugin, which checks them",
}
"""The first part of each path of `--set`, and what it decides."""
WIDTH = 100
"""Columns of a description where no terminal gives a width."""


def _settings_of(case: Case) -> list[dict[str, Any]]:
    """Each path that can be set: its name for `--set`, its value in the case, and what it takes."""
    from llmperf.planning import describe, full_path, known_paths

    settings = []
    for path, annotation in known_paths().items():
        rest = path.partition(".")[2]
        value: Any = case
        for name in path.split("."):  # None below a table that the case does not have, such as `contract.lora`
            value = getattr(value, name, None)
        short = rest if full_path(rest, path) == path else path  # `optimizer.lr`, unless that alone means another
        settings.append({"path": path, "set": short, "value": value, "takes": describe(annotation)})
    for name, value in case.framework.items():
        path = f"framework.{name}"
        settings.append({"path": path, "set": path, "value": value, "takes": "an option of the framework"})
    return settings


def _print_case(case: Case, settings: list[dict[str, Any]]) -> None:
    """One case: what it is, and every path of `--set` with its value as `--set` takes it."""
    from textwrap import wrap

    from llmperf.reporting import Column

    width = llmperf.page_width() or WIDTH
    llmperf.print_facts([("case", case.name), ("title", case.title), ("source", case.source)])
    click.echo("\n" + "\n".join(wrap(" ".join(case.description.split()), width) or ["-"]))

    def typed(value: Any) -> str:
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(f'"{item}"' if isinstance(item, str) else str(item) for item in value) + "]"
        return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    columns = [Column(title=title, importance=place, wraps=16) for place, title in enumerate(("value", "takes"), 2)]
    for part, meaning in PARTS.items():
        rows = [each for each in settings if each["path"].split(".")[0] == part]
        if rows:
            click.echo(f"\n{click.style(part, bold=True)}: {llmperf.painted('context', meaning)}")
            cells = [(each["set"], typed(each["value"]), each["takes"]) for each in rows]
            llmperf.print_table((Column(title="--set", importance=1), *columns), cells)
    click.echo(f"\nExample: llmperf run {case.name} --set steps={2 * case.contract.steps}")
