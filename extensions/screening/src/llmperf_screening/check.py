"""The check of nodes before a run and by `llmperf doctor`, and what it prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from llmperf import compact_hosts, print_table, printable
from llmperf.types import CalledCommand, CommandOptions, NodesChecked, ReachedNodes

from llmperf_screening.screen import Screening
from llmperf_screening.verdict import Measured, Verdict, verdict


def options_of(command: str) -> CommandOptions:
    """`--screening/--no-screening` of `llmperf run` or `llmperf doctor`."""
    run = command == "run"
    option = click.Option(
        ["--screening/--no-screening"],
        default=True,
        envvar="LLMPERF_SCREENING" if run else None,
        help="Measure each of several nodes for some seconds first, and compare them."
        if run
        else "Measure the nodes and compare them.",
    )

    def begin(called: CalledCommand) -> None:
        if called.values["screening"]:
            called.check_nodes(checked_before_run if run else checked_by_doctor)

    return CommandOptions(options=[option], begin=begin)


def checked_before_run(nodes: ReachedNodes) -> NodesChecked:
    """Slow nodes are warned of and noted; ranks that could not reach each other are a problem."""
    found = verdict(Screening(nodes, together=False).run())

    def show() -> None:
        outcome = "none stands out" if not found.slow else f"{len(found.slow)} finding{'s' * (len(found.slow) != 1)}"
        hosts = compact_hosts(node.host for node in nodes.nodes)
        for line in (f"screening of {hosts}: {found.seconds:.0f} s, {outcome}",
                     *(f"warning: screening: {line}" for line in found.slow)):  # fmt: skip
            click.echo(printable(line, " ")[:2000], err=True)

    notes = [f"screening: {line}" for line in (*found.slow, *found.not_measured)]
    return NodesChecked(show=show, problems=found.unreachable, notes=notes)


def checked_by_doctor(nodes: ReachedNodes) -> NodesChecked:
    """Slow nodes are a problem too."""
    found = verdict(Screening(nodes, together=True).run())

    def show() -> None:
        for line in shown(found, nodes.failed > 0):
            click.echo(line)

    return NodesChecked(show=show, problems=(*found.unreachable, *found.slow), document={"verdict": found})


def shown(found: Verdict, others_failed: bool) -> Iterator[str]:
    """The lines below the table of figures, which is printed first."""
    yield ""
    if found.measured:
        print_table(
            ["node", "measured", "figure", "median of the others", "difference"],
            [_figures(item) for item in found.measured],
        )
        yield ""
    if found.path_mtu:
        yield f"path MTU: {', '.join(map(str, found.path_mtu))} bytes"
    error, warning = click.style("error", fg="red"), click.style("warning", fg="yellow")
    groups = (("not measured", found.not_measured), (error, found.unreachable), (warning, found.slow))
    yield from (f"{kind}: {printable(line, ' ')}" for kind, lines in groups for line in lines)
    if not found.sick:
        which = "none of the other nodes" if others_failed else "no node"
        yield f"{which} stands out; screened in {found.seconds:.0f} s"


MAX_SHARE = 9.0
"""Larger differences are shown as a factor."""
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def _figures(item: Measured) -> list[Any]:
    relative = None if item.relative is None else f"{_relative(item.relative)}{' !' if item.slow else ''}"
    return [item.host, item.what, _figure(item.value, item.unit), _figure(item.others, item.unit), relative]


def _relative(value: float) -> str:
    """Such as `-12 %` or `532 times`."""
    return f"{100 * value:+.0f} %" if value < MAX_SHARE else f"{1 + value:,.0f} times"


def _figure(value: float | None, unit: str) -> str | None:
    if value is None:
        return None
    if unit == "s":
        return f"{1e3 * value:.3f} ms"
    size, prefix = next(((size, prefix) for size, prefix in PREFIXES if value >= size), (1.0, ""))
    return f"{value / size:.3g} {prefix}{unit}"
