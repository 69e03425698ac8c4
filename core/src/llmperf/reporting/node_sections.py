"""The rows and sections of a result about its nodes, and about ranks that made others wait."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.accounting.layout import coordinates_text, range_text
from llmperf.reporting import cells
from llmperf.reporting.cells import joined, number, shown, text_row
from llmperf.results.disturbances import before_start, disturbances
from llmperf.types import Result, Row, Section, Text
from llmperf.types.hosts import NodeConditions, NodeResult, Straggler, Waiting

MAX_NODES = 64
"""Nodes that a table lists. Of more, it lists those that differ, were lost or were slow."""
HOSTS_SHOWN = 3


def node_rows(result: Result) -> Iterator[Row]:
    """Rows of the card: the nodes, waits for communication, and stragglers; nothing where there are none."""
    if result.nodes:
        hosts = [node.host for node in result.nodes[:HOSTS_SHOWN]]
        more = [f"{len(result.nodes) - HOSTS_SHOWN} more"] if len(result.nodes) > HOSTS_SHOWN else []
        different = sum(bool(node.differs) for node in result.nodes)
        but = f"; {different} differ from the others" if different else ""
        yield Row(key="hosts", label="hosts", value=len(result.nodes), text=joined([*hosts, *more]) + but)
    if result.waiting is not None:
        waiting = result.waiting
        share = Row(key="communication_share", label="waits for communication", value=waiting.share,
                    rounding=cells.PERCENT)  # fmt: skip
        values = shown(share), cells.percent(waiting.least_share), cells.percent(waiting.most_share)
        yield Row(key="communication", label="waits for communication", value=waiting.share, parts=(share,),
                  text=Text("{} of the window; by rank {} to {}", *values), own_words=True)  # fmt: skip
        if waiting.stragglers:
            yield Row(key="stragglers", label="stragglers", value=len(waiting.stragglers) + waiting.more_stragglers,
                      text=straggler_text(result, waiting), parts=(_cost(waiting),), own_words=True)  # fmt: skip


def _cost(waiting: Waiting) -> Row:
    return Row(key="straggler_cost_seconds", label="cost, s", value=waiting.cost_seconds, unit="s",
               rounding=cells.WINDOW_SECONDS)  # fmt: skip


def straggler_text(result: Result, waiting: Waiting) -> str:
    """Stragglers as text: `rank 5 on node 1 (b); without it the window might be 4.41 s shorter, of 12.01 s`."""
    window = result.metrics.window_seconds
    of = "" if window is None else Text(", of {:.2f} s", window)
    values = _who(result, waiting), shown(_cost(waiting)), of
    return Text("{}; without that the window might be {} s shorter{}", *values)


def _who(result: Result, waiting: Waiting) -> str:
    """Whole nodes by number, other ranks with their nodes."""
    nodes = [_node(result, node) for node in waiting.slow_nodes[:HOSTS_SHOWN]]
    others = [straggler for straggler in waiting.stragglers if straggler.node_rank not in waiting.slow_nodes]
    ranks = [_rank(result, straggler) for straggler in others[:HOSTS_SHOWN]]
    rest = len(waiting.slow_nodes) - len(nodes)
    hidden = [Text("{} more nodes", rest)] if rest > 0 else []
    rest = len(others) - len(ranks)
    return Text.joined(", ", [*nodes, *hidden, *ranks, *([Text("{} more ranks", rest)] if rest > 0 else [])])


def _rank(result: Result, straggler: Straggler) -> str:
    if result.hardware.nodes == 1:
        return Text("rank {}", straggler.rank)
    return Text("rank {} on {}", straggler.rank, _node(result, straggler.node_rank))


def _node(result: Result, node: int) -> str:
    return Text("node {} ({})", node, result.nodes[node].host) if node < len(result.nodes) else Text("node {}", node)


def node_sections(result: Result) -> Iterator[Section]:
    """The tables of nodes and of stragglers."""
    if result.nodes:
        slow = {straggler.node_rank for straggler in result.waiting.stragglers} if result.waiting else set()
        listed = [
            node for node in result.nodes
            if len(result.nodes) <= MAX_NODES or node.differs or node.lost_seconds is not None or node.node_rank in slow
        ]  # fmt: skip
        hidden = len(result.nodes) - len(listed[:MAX_NODES])
        lines = (f"{hidden} of {len(result.nodes)} nodes are not listed; result.json has all",) if hidden else ()
        yield Section(key="nodes", title="Nodes", records=tuple(map(_node_record, listed[:MAX_NODES])), lines=lines)
    if result.waiting is not None and result.waiting.stragglers:
        waiting = result.waiting
        records = tuple(
            (
                Row(key="rank", label="rank", value=straggler.rank),
                text_row("node", _node(result, straggler.node_rank), "node", own_words=True),
                Row(key="busy_seconds", label="busy, s", value=straggler.busy_seconds, unit="s",
                    rounding=cells.WINDOW_SECONDS),
                Row(key="lag_seconds", label="longer than its peers, s", value=straggler.lag_seconds, unit="s",
                    rounding=cells.WINDOW_SECONDS),
            )
            for straggler in waiting.stragglers
        )  # fmt: skip
        more = (f"{number(waiting.more_stragglers)} more are not listed",) if waiting.more_stragglers else ()
        lines = (*more, straggler_text(result, waiting), waiting.method)
        yield Section(key="stragglers", title="Stragglers", records=records, lines=lines)


def _node_record(node: NodeResult) -> tuple[Row, ...]:
    offset = Row(key="clock_offset_seconds", label="clock offset, s", value=node.clock_offset_seconds, unit="s",
                 rounding=cells.SIGNIFICANT)  # fmt: skip
    lost = [] if node.lost_seconds is None else [f"did not answer for {node.lost_seconds:.0f} s"]
    differs = [f"{name}={cells.text(value)}" for name, value in node.differs.items()]
    more = [f"{node.more_differences} more"] if node.more_differences else []
    return (
        Row(key="node_rank", label="node", value=node.node_rank),
        text_row("host", node.host, "host"),
        text_row("interface", node.interface, "interface"),
        text_row("ranks", range_text(node.first_rank, node.last_rank), "ranks"),
        text_row("coordinates", coordinates_text(node.coordinates) or None, "coordinates"),
        offset,
        text_row("differs from most nodes", joined([*lost, *differs, *more]) or None, "differs"),
    )


MAX_NODES = 64
"""Nodes that the table lists; of more, those where others used most of the cores."""


def disturbance_rows(result: Result) -> Iterator[Row]:
    """Rows of the card: one sentence on what disturbed the run; nothing for a quiet one."""
    if parts := list(disturbances(result)):
        yield text_row("disturbed", Text.joined("; ", parts), "disturbed", own_words=True)


def condition_sections(result: Result) -> Iterator[Section]:
    """Activity of others on each node before the run and in its measured window."""
    nodes, lines = result.conditions, tuple[str, ...]()
    if len(nodes) > MAX_NODES:
        busiest = sorted(nodes, key=lambda node: -(node.other_cpu_share or 0.0))[:MAX_NODES]
        lines = (f"the {MAX_NODES} busiest nodes; result.json has all {len(nodes)}",)
        nodes = tuple(sorted(busiest, key=lambda node: node.node_rank))
    if nodes:
        records = [tuple(_conditions(node)) for node in nodes]
        known = {row.key for record in records for row in record if row.value is not None}
        if len(result.conditions) == 1:
            known.discard("node_rank")
        shown_rows = tuple(tuple(row for row in record if row.key in known) for record in records)
        yield Section(key="conditions", title="What else ran", records=shown_rows, lines=lines)


def _conditions(node: NodeConditions) -> Iterator[Row]:
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
