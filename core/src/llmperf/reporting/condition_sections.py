"""The rows and the section of a result about what else its hosts and devices did."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.reporting import cells
from llmperf.reporting.cells import text_row
from llmperf.results.disturbances import before_start, disturbances
from llmperf.types import Result, Row, Section
from llmperf.types.host_load import NodeConditions

MAX_NODES = 64
"""Nodes that the table lists; of more, those where others used most of the cores."""


def disturbance_rows(result: Result) -> Iterator[Row]:
    """Of the card: one sentence on what disturbed the run; nothing for a quiet one."""
    if parts := list(disturbances(result)):
        yield text_row("disturbed", "; ".join(parts), "disturbed", own_words=True)


def condition_sections(result: Result) -> Iterator[Section]:
    """What else went on on each node before the run and in its measured window."""
    nodes, lines = result.conditions, tuple[str, ...]()
    if len(nodes) > MAX_NODES:
        busiest = sorted(nodes, key=lambda node: -(node.other_cpu_share or 0.0))[:MAX_NODES]
        lines = (f"the {MAX_NODES} busiest nodes; result.json has all {len(nodes)}",)
        nodes = tuple(sorted(busiest, key=lambda node: node.node_rank))
    if nodes:
        records = [tuple(_node(node)) for node in nodes]
        known = {row.key for record in records for row in record if row.value is not None}
        if len(result.conditions) == 1:
            known.discard("node_rank")
        shown_rows = tuple(tuple(row for row in record if row.key in known) for record in records)
        yield Section(key="conditions", title="What else ran", records=shown_rows, lines=lines)


def _node(node: NodeConditions) -> Iterator[Row]:
    """All that is known of a node; what is known of no node is left out of the table."""
    yield Row(key="node_rank", label="node", value=node.node_rank)
    yield text_row("before the start", before_start(node), "before", own_words=True)
    yield Row(key="other_cpu_share", label="cores used by others", value=node.other_cpu_share, rounding=cells.PERCENT)
    yield Row(key="most_other_cpu_share", label="at most", value=node.most_other_cpu_share, rounding=cells.PERCENT)
    programs = [f"{program.name} {cells.percent(program.cpu_share)}" for program in node.programs]
    yield text_row("programs", ", ".join(programs) or None, "programs")
    yield Row(key="other_processes", label="processes of others on the devices", value=node.other_processes)
    waits = [f"{name} {cells.percent(share)}" for name, share in node.pressure.items()]
    yield text_row("time in which tasks waited", ", ".join(waits) or None, "pressure")
    yield Row(key="least_memory_available_bytes", label="least memory free, GiB",
              value=node.least_memory_available_bytes, unit="bytes", rounding=cells.DEVICE_GIB)  # fmt: skip
    yield Row(key="swapped_bytes", label="swapped, GiB", value=node.swapped_bytes, unit="bytes",
              rounding=cells.DEVICE_GIB)  # fmt: skip
    clocks = " ".join("-" if clock is None else f"{clock / 1e6:.0f}" for clock in node.clock_hertz)
    yield text_row("clock by tenth of the window, MHz", clocks or None, "clock_over_time")
    slowed = [
        f"{reason}: {' '.join('-' if part is None else f'{100 * part:.0f}' for part in parts)}"
        for reason, parts in node.throttling.items()
    ]
    yield text_row(
        "throttling by tenth of the window, % of the readings", "; ".join(slowed) or None, "throttling_over_time"
    )
