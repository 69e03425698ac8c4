"""The rows and sections of a result about its nodes, and about ranks that made others wait."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.accounting.rank_layout import coordinates_text, range_text
from llmperf.reporting import cells
from llmperf.reporting.cells import joined, labelled, number, shown
from llmperf.results.disturbances import before_start
from llmperf.types import Result, Row, Section, Text
from llmperf.types.hosts import NodeConditions, Waiting

MAX_NODES = 64
"""Nodes that a table lists. Of more, those that differ, were lost or were slow; of conditions, where others used most
of the cores."""
HOSTS_SHOWN = 3


def node_rows(result: Result) -> Iterator[Row]:
    """Rows of the card: the nodes, waits for communication, and stragglers; nothing where there are none."""
    if result.nodes:
        hosts = [node.host for node in result.nodes[:HOSTS_SHOWN]]
        more = [f"{len(result.nodes) - HOSTS_SHOWN} more"] if len(result.nodes) > HOSTS_SHOWN else []
        different = sum(bool(node.differs) for node in result.nodes)
        but = f"; {different} differ from the others" if different else ""
        yield labelled("hosts", "hosts", len(result.nodes), text=joined([*hosts, *more]) + but)
    if (waiting := result.waiting) is not None:
        label = "waits for communication"
        share = labelled("communication_share", label, waiting.share, cells.PERCENT)
        values = shown(share), cells.percent(waiting.least_share), cells.percent(waiting.most_share)
        text = Text("{} of the window; by rank {} to {}", *values)
        yield labelled("communication", label, waiting.share, text=text, parts=(share,))
        if waiting.stragglers:
            count = len(waiting.stragglers) + waiting.more_stragglers
            slow, cost = _stragglers(result, waiting)
            yield labelled("stragglers", "stragglers", count, text=slow, parts=(cost,))


def _stragglers(result: Result, waiting: Waiting) -> tuple[str, Row]:
    """`rank 5 on node 1 (b); without it the window might be 4.41 s shorter, of 12.01 s`, and the row of the cost."""
    cost = labelled("straggler_cost_seconds", "cost, s", waiting.cost_seconds, cells.WINDOW_SECONDS, "s")
    slow = [_node(result, node) for node in waiting.slow_nodes]
    ranks = [
        Text("rank {}", each.rank)
        if result.hardware.nodes == 1
        else Text("rank {} on {}", each.rank, _node(result, each.node_rank))
        for each in waiting.stragglers
        if each.node_rank not in waiting.slow_nodes
    ]
    named = []
    for texts, more in ((slow, "{} more nodes"), (ranks, "{} more ranks")):
        rest = len(texts) - HOSTS_SHOWN
        named += [*texts[:HOSTS_SHOWN], *([Text(more, rest)] if rest > 0 else [])]
    window = result.metrics.window_seconds
    values = Text.joined(", ", named), shown(cost), "" if window is None else Text(", of {:.2f} s", window)
    return Text("{}; without that the window might be {} s shorter{}", *values), cost


def _node(result: Result, node: int) -> str:
    return Text("node {} ({})", node, result.nodes[node].host) if node < len(result.nodes) else Text("node {}", node)


def node_sections(result: Result) -> Iterator[Section]:
    """The tables of nodes and of stragglers."""
    waiting, nodes = result.waiting, result.nodes
    if nodes:
        slow = {straggler.node_rank for straggler in waiting.stragglers} if waiting else set()
        listed = [
            node for node in nodes
            if len(nodes) <= MAX_NODES or node.differs or node.lost_seconds is not None or node.node_rank in slow
        ][:MAX_NODES]  # fmt: skip
        records = []
        for node in listed:
            differs = [] if node.lost_seconds is None else [f"did not answer for {node.lost_seconds:.0f} s"]
            differs += [f"{name}={cells.text(value)}" for name, value in node.differs.items()]
            differs += [f"{node.more_differences} more"] if node.more_differences else []
            records.append(
                (
                    labelled("node_rank", "node", node.node_rank),
                    labelled("host", "host", node.host),
                    labelled("interface", "interface", node.interface),
                    labelled("ranks", "ranks", range_text(node.first_rank, node.last_rank)),
                    labelled("coordinates", "coordinates", coordinates_text(node.coordinates) or None),
                    labelled("clock_offset_seconds", "clock offset, s", node.clock_offset_seconds, cells.SIGNIFICANT,
                             "s"),
                    labelled("differs", "differs from most nodes", ", ".join(differs) or cells.UNKNOWN),
                )
            )  # fmt: skip
        hidden = len(nodes) - len(listed)
        lines = (f"{hidden} of {len(nodes)} nodes are not listed; result.json has all",) if hidden else ()
        yield Section(key="nodes", title="Nodes", records=tuple(records), lines=lines)
    if waiting is not None and waiting.stragglers:
        slow_ranks = tuple(
            (
                labelled("rank", "rank", each.rank),
                labelled("node", "node", _node(result, each.node_rank)),
                labelled("busy_seconds", "busy, s", each.busy_seconds, cells.WINDOW_SECONDS, "s"),
                labelled("lag_seconds", "longer than its peers, s", each.lag_seconds, cells.WINDOW_SECONDS, "s"),
            )
            for each in waiting.stragglers
        )
        more = (f"{number(waiting.more_stragglers)} more are not listed",) if waiting.more_stragglers else ()
        lines = (*more, _stragglers(result, waiting)[0], waiting.method)
        yield Section(key="stragglers", title="Stragglers", records=slow_ranks, lines=lines)


def condition_sections(result: Result) -> Iterator[Section]:
    """Activity of others on each node before the run and in its measured window; nothing that is known of no node."""
    nodes, lines = result.conditions, tuple[str, ...]()
    if len(nodes) > MAX_NODES:
        busiest = sorted(nodes, key=lambda node: -(node.other_cpu_share or 0.0))[:MAX_NODES]
        lines = (f"the {MAX_NODES} busiest nodes; result.json has all {len(nodes)}",)
        nodes = tuple(sorted(busiest, key=lambda node: node.node_rank))
    records = [tuple(_conditions(node)) for node in nodes]
    known = {row.key for record in records for row in record if row.value is not None}
    if len(result.conditions) == 1:
        known.discard("node_rank")
    if nodes:
        shown_rows = tuple(tuple(row for row in record if row.key in known) for record in records)
        yield Section(key="conditions", title="What else ran", records=shown_rows, lines=lines)


def _conditions(node: NodeConditions) -> Iterator[Row]:
    yield labelled("node_rank", "node", node.node_rank)
    yield labelled("before", "before the start", before_start(node), own_words=True)
    yield labelled("other_cpu_share", "cores used by others", node.other_cpu_share, cells.PERCENT)
    yield labelled("most_other_cpu_share", "at most", node.most_other_cpu_share, cells.PERCENT)
    programs = [f"{program.name} {cells.percent(program.cpu_share)}" for program in node.programs]
    yield labelled("programs", "programs", ", ".join(programs) or None)
    yield labelled("other_processes", "processes of others on the devices", node.other_processes)
    waits = [f"{name} {cells.percent(share)}" for name, share in node.pressure.items()]
    yield labelled("pressure", "time in which tasks waited", ", ".join(waits) or None)
    least = node.least_memory_available_bytes
    yield labelled("least_memory_available_bytes", "least memory free, GiB", least, cells.DEVICE_GIB, "bytes")
    yield labelled("swapped_bytes", "swapped, GiB", node.swapped_bytes, cells.DEVICE_GIB, "bytes")
    clocks = " ".join("-" if clock is None else f"{clock / 1e6:.0f}" for clock in node.clock_hertz)
    yield labelled("clock_over_time", "clock by tenth of the window, MHz", clocks or None)
    slowed = "; ".join(
        f"{reason}: {' '.join('-' if part is None else f'{100 * part:.0f}' for part in parts)}"
        for reason, parts in node.throttling.items()
    )
    yield labelled("throttling_over_time", "throttling by tenth of the window, % of the readings", slowed or None)
