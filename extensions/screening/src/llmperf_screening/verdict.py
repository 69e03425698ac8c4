"""Slow and unreachable nodes: each node's figures against those of the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmperf import compact_hosts

from llmperf_screening.comparison import (
    NETWORK_TOLERANCE,
    compared,
    median,
    medians_of_others,
    rates,
    silent_directions,
    slow_directions,
)
from llmperf_screening.screen import Screened

CHECK_MTU = "large packets seem to be lost: check that the MTU of both interfaces is that of all switches between them"
LATENCY_FACTOR, LATENCY_SECONDS = 2.0, 0.0005
"""A node's shortest latency may be this many times the median of the others' and this much longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One figure of a node beside those of the others."""

    host: str
    what: str
    """Such as `host matrix product` or `sending`."""
    unit: str
    value: float | None
    """None if it could not be measured."""
    others: float | None
    """Median of the other nodes; None if there are none."""
    slow: bool
    """The figure is beyond the tolerance."""

    @property
    def relative(self) -> float | None:
        """The figure minus the median of the others, as a share of that."""
        return self.value / self.others - 1 if self.value is not None and self.others else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Outcome of a screening."""

    measured: tuple[Measured, ...]
    """Every figure, by what was measured."""
    slow: tuple[str, ...]
    """One line for each slow node or connection."""
    unreachable: tuple[str, ...]
    """One line for each node that ranks on other nodes could not reach, or that could not be screened."""
    not_measured: tuple[str, ...]
    """One line for each figure that could not be measured, with the reason."""
    path_mtu: tuple[int, ...]
    """The different path MTUs between nodes, in bytes."""
    seconds: float
    """How long the screening took."""

    @property
    def sick(self) -> bool:
        """Any node or connection is slow or out of reach."""
        return bool(self.slow or self.unreachable)


def verdict(screened: Screened) -> Verdict:
    """Compare every figure of a screening."""
    figures = []
    for item in compared(screened.figures):  # a device: with all devices of the other nodes and of its own
        figure, device = item.figure, "" if item.figure.device is None else f" of device {item.figure.device}"
        host, what, others = screened.hosts[item.rank], f"{figure.check}{device}", item.others
        figures.append(
            Measured(host=host, what=what, unit=figure.unit, value=figure.value, others=others, slow=item.slow)
        )
    network, links = _of_network(screened)
    pairs, slow_pairs = _of_pairs(screened)
    measured = [*figures, *network]
    silent = _silent(screened)
    slow = []
    for each in measured:
        if each.slow and each.value and each.unit == "s":
            times = f"{1e3 * each.value:.2f} ms, {1e3 * (each.others or 0.0):.2f} ms on other nodes"
            slow.append(f"node {each.host}: {each.what} of {times}")
        elif each.slow and each.value:
            share = -100 * (each.relative or 0.0)
            slow.append(f"node {each.host}: {each.what} is {share:.0f} % slower than the median of the others")
    slow_hosts = {item.host for item in network if item.slow}
    slow_hosts |= {host for pair in silent for host in pair}
    slow += [line for pair, line in (*links, *slow_pairs) if not slow_hosts & set(pair)]
    return Verdict(
        measured=(*measured, *pairs),
        slow=tuple(dict.fromkeys(slow)),
        unreachable=(*_unreachable(screened), *silent.values()),
        not_measured=(*screened.skipped, *_not_measured(screened)),
        path_mtu=tuple(sorted({mtu for contacts in screened.transfers for c in contacts if (mtu := c.path_mtu)})),
        seconds=screened.seconds,
    )


def _of_network(screened: Screened) -> tuple[list[Measured], list[tuple[tuple[str, str], str]]]:
    """Each node's best transfers and latency; and connections that are slow although both nodes are not."""
    hosts = screened.hosts
    known = rates(screened.transfers)
    measured: list[Measured] = []
    if len(hosts) == 2:
        for (first, second), rate in known.items():
            what, others = f"sending to {hosts[second]}", known[second, first]
            measured.append(Measured(host=hosts[first], what=what, unit="B/s", value=rate, others=others, slow=False))
    else:
        measured += [*_best(screened, known, "sending", 0), *_best(screened, known, "receiving", 1)]
        measured += _latencies(screened)
    other = "the other direction" if len(hosts) == 2 else "the median of all connections"
    links = [
        (
            (hosts[first], hosts[second]),
            f"{hosts[first]} to {hosts[second]}: transfers are {100 * share:.0f} % slower than {other}",
        )
        for (first, second), share in slow_directions(known).items()
    ]
    return measured, links


def _best(screened: Screened, known: Mapping[tuple[int, int], float], what: str, end: int) -> Iterator[Measured]:
    """The fastest transfer of each node as the sender (end 0) or receiver (end 1)."""
    best = {way[end]: max(rate for other, rate in known.items() if other[end] == way[end]) for way in known}
    for rank, rate in best.items():
        others = median(other for node, other in best.items() if node != rank)
        slow = others is not None and rate < (1 - NETWORK_TOLERANCE) * others
        yield Measured(host=screened.hosts[rank], what=what, unit="B/s", value=rate, others=others, slow=slow)


def _latencies(screened: Screened) -> Iterator[Measured]:
    shortest = {
        rank: min(known)
        for rank, contacts in enumerate(screened.contacts)
        if (known := [contact.latency_seconds for contact in contacts if contact.latency_seconds is not None])
    }
    for rank, latency in shortest.items():
        others = median(other for node, other in shortest.items() if node != rank)
        slow = others is not None and latency > LATENCY_FACTOR * others and latency > others + LATENCY_SECONDS
        yield Measured(host=screened.hosts[rank], what="latency", unit="s", value=latency, others=others, slow=slow)


def _of_pairs(screened: Screened) -> tuple[list[Measured], list[tuple[tuple[str, str], str]]]:
    """Checks that two nodes made together, by pair; with more than two pairs, slow ones are named."""
    named: defaultdict[str, list[tuple[tuple[str, str], float, str, float]]] = defaultdict(list)
    for (first, second), figures in screened.pairs:
        for figure in figures:
            if figure.value is not None:
                pair = (screened.hosts[first], screened.hosts[second])
                named[figure.check].append((pair, figure.value, figure.unit, figure.tolerance))
    measured, slow = [], []
    for check, entries in named.items():
        medians = medians_of_others([value for _, value, _, _ in entries])
        for (pair, value, unit, tolerance), others in zip(entries, medians, strict=True):
            late = others is not None and value < (1 - tolerance) * others
            name = " and ".join(pair)
            measured.append(Measured(host=name, what=check, unit=unit, value=value, others=others, slow=late))
            if late and others:
                share = 100 * (1 - value / others)
                slow.append((pair, f"{name}: {check} is {share:.0f} % slower than the median of the other pairs"))
    return measured, slow


def _unreachable(screened: Screened) -> Iterator[str]:
    """Nodes with problems; a node that nobody reaches is named once."""
    hosts = screened.hosts
    for rank, problem in screened.problems:
        yield problem if hosts[rank] in problem else f"node {hosts[rank]}: {problem}"
    failed: defaultdict[int, dict[int, str]] = defaultdict(dict)
    tried: defaultdict[int, int] = defaultdict(int)
    for rank, contacts in enumerate(screened.contacts):
        for contact in contacts:
            tried[contact.peer] += 1
            if contact.problem is not None:
                failed[contact.peer][rank] = contact.problem
    for peer, reasons in failed.items():
        if len(reasons) == tried[peer]:
            yield f"node {hosts[peer]}: {_by_reason(reasons, hosts)}; its ports are closed to other nodes"
    for peer, reasons in failed.items():
        partial = {rank: reason for rank, reason in reasons.items() if len(failed.get(rank, {})) != tried[rank]}
        if len(reasons) < tried[peer] and partial:
            yield f"node {hosts[peer]}: {_by_reason(partial, hosts)}"
    for rank, contacts in enumerate(screened.transfers):
        for contact in contacts:
            if contact.problem is not None:
                yield f"{hosts[rank]} and {hosts[contact.peer]}: a transfer between them failed: {contact.problem}"


def _silent(screened: Screened) -> dict[frozenset[str], str]:
    """One line for nodes between which connections open but carry no data, by their hosts."""
    hosts = screened.hosts
    late = {
        frozenset(pair): f"{figure.check} timed out: {figure.problem}"
        for pair, figures in screened.pairs
        for figure in figures
        if figure.timed_out
    }
    ways = silent_directions(rates(screened.transfers))
    open_but_empty = {frozenset(way): "connections open, but no data arrives" for way in ways}
    reasons = {**late, **open_but_empty}
    lines = {}
    while reasons:  # the node with most such partners is named once
        node = max(
            sorted({rank for pair in reasons for rank in pair}), key=lambda rank: sum(rank in p for p in reasons)
        )
        pairs = [pair for pair in reasons if node in pair]
        found = {reasons.pop(pair) for pair in pairs}
        others = compact_hosts(hosts[rank] for pair in pairs for rank in sorted(pair - {node}))
        senders = {way[0] for way in ways if frozenset(way) in pairs}
        direction = f" from {hosts[node]}" if senders == {node} else f" to {hosts[node]}" if node not in senders else ""
        lines[frozenset(hosts[rank] for pair in pairs for rank in pair)] = (
            f"{hosts[node]} and {others}: {'; '.join(sorted(found))}{direction if senders else ''}; {CHECK_MTU}"
        )
    return lines


def _by_reason(reasons: Mapping[int, str], hosts: Sequence[str]) -> str:
    grouped: defaultdict[str, list[str]] = defaultdict(list)
    for rank, reason in reasons.items():
        grouped[reason].append(hosts[rank])
    return "; ".join(f"connections from {compact_hosts(names)} fail: {reason}" for reason, names in grouped.items())


def _not_measured(screened: Screened) -> Iterator[str]:
    for rank, figures in enumerate(screened.figures):
        for figure in figures:
            if figure.problem is not None:
                device = "" if figure.device is None else f" of device {figure.device}"
                yield f"node {screened.hosts[rank]}: {figure.check}{device}: {figure.problem}"
    for (first, second), figures in screened.pairs:
        for figure in figures:
            if figure.problem is not None and not figure.timed_out:
                yield f"{screened.hosts[first]} and {screened.hosts[second]}: {figure.check}: {figure.problem}"
