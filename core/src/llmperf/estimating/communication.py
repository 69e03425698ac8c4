"""Seconds of a collective by the alpha-beta model of rings: steps x latency + bytes / bandwidth.

Thakur, Rabenseifner and Gropp 2005, "Optimization of Collective Communication Operations in MPICH". What a rank sends
of a tensor of b bytes among n ranks is 2 (n-1)/n b for an all-reduce and (n-1)/n b for a gather or scatter.
"""

from __future__ import annotations

from dataclasses import replace

from llmperf.types.estimate import Scope
from llmperf.types.layout import Layout
from llmperf.types.rates import DeviceRates, LinkRate
from llmperf.types.tracing import TracedCollective


def scope_of(ranks: tuple[int, ...], layout: Layout) -> Scope:
    """Whether the ranks are on one node or on several."""
    return "node" if len({layout.node_of(rank) for rank in ranks}) <= 1 else "cluster"


def sent_bytes(collective: TracedCollective) -> float:
    """What one rank sends in one communication."""
    size = len(collective.ranks)
    if size <= 1:
        return 0.0
    if collective.collective in ("broadcast", "reduce", "send_receive"):
        return float(collective.bytes)
    rounds = 2 if collective.collective == "all_reduce" else 1
    return rounds * (size - 1) / size * collective.bytes


def ring_steps(collective: TracedCollective) -> int:
    """Messages that one rank sends one after the other."""
    if collective.collective == "send_receive":
        return 1
    size = len(collective.ranks)
    return (2 if collective.collective == "all_reduce" else 1) * max(size - 1, 0)


def collective_seconds(collective: TracedCollective, rates: DeviceRates, layout: Layout) -> float:
    """Seconds of one communication; ValueError if the device has no rate for its link."""
    if len(collective.ranks) <= 1:
        return 0.0
    scope = scope_of(collective.ranks, layout)
    link = _link(rates, scope)
    if link is None or not link.bytes_per_second:
        advice = "; give the network of each node: --network GBIT"
        where = "within a node is not known" if scope == "node" else f"between nodes is not known{advice}"
        raise ValueError(f"{rates.device_model}: the rate of links {where}")
    return link.latency_seconds * ring_steps(collective) + sent_bytes(collective) / _bandwidth(
        link, collective, rates, layout
    )


def _link(rates: DeviceRates, scope: Scope) -> LinkRate | None:
    return next((link for link in rates.links if link.scope == scope), None)


def _bandwidth(link: LinkRate, collective: TracedCollective, rates: DeviceRates, layout: Layout) -> float:
    """Bytes/s of one rank, of all that it sends.

    A ring through several nodes enters each node once, so that the adapters of all its ranks on a node share the
    traffic; links within the node limit it too.
    """
    if link.scope == "node":
        return link.bytes_per_second
    nodes = len({layout.node_of(rank) for rank in collective.ranks})
    if collective.collective == "all_to_all":  # no message is passed on: each rank sends (nodes - 1) / nodes outside
        size = len(collective.ranks)
        return link.bytes_per_second * (size - 1) / size * nodes / (nodes - 1)
    together = link.bytes_per_second * max(len(collective.ranks) // nodes, 1)
    inside = _link(rates, "node")
    return min(together, inside.bytes_per_second) if inside is not None and inside.bytes_per_second else together


def with_network(rates: DeviceRates, bytes_per_second: float, devices_per_node: int) -> DeviceRates:
    """The rates with a network whose node reaches `bytes_per_second` in one direction, all adapters together."""
    known = _link(rates, "cluster")
    link = LinkRate(
        scope="cluster",
        bytes_per_second=bytes_per_second / devices_per_node,
        latency_seconds=known.latency_seconds if known else 1e-5,
        source=f"{bytes_per_second * 8e-9:g} Gb/s for each node, as --network says",
    )
    return replace(rates, links=(*(other for other in rates.links if other.scope != "cluster"), link))
