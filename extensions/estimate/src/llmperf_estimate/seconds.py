"""Seconds of operations and collectives by the rates of a device.

An operation is limited by FLOPs, bytes or its launch: the roofline model (Williams et al. 2009). A collective takes
steps x latency + bytes / bandwidth, the alpha-beta model of rings (Thakur, Rabenseifner and Gropp 2005). Of a tensor of
b bytes among n ranks, each sends 2 (n-1)/n b for an all-reduce and (n-1)/n b for a gather or scatter.
"""

from __future__ import annotations

import math
from dataclasses import replace

from llmperf.types.layout import Layout
from llmperf.types.rates import DeviceRates, LinkRate, MatmulRate
from llmperf.types.tracing import TracedCollective, TracedOperation

from llmperf_estimate.types import Scope

TILE = 128
"""Rows and columns of the tiles into which kernels cut a matrix product. A partial tile takes as long as a whole."""

FLOATING = ("bf16", "fp16", "tf32", "fp32")
"""The dtypes of rates. Indices and masks of attention are limited by the memory."""


def operation_seconds(operation: TracedOperation, rates: DeviceRates) -> float:
    """Seconds of one operation with all its kernels; ValueError if the device has no rate for its dtype."""
    launch = rates.launch_seconds * operation.kernels
    traffic = operation.bytes / rates.memory_bytes_per_second if operation.bytes else 0.0
    compute = 0.0
    if operation.flops and operation.kind == "matmul":
        # the measured rate of a product of the same size, whichever operand is called rows
        same = [each for each in rates.matmuls if each.dtype == operation.dtype and _size(each) == _size(operation)]
        measured = same[0].flops_per_second if same else None
        waste = 1.0 if measured else tile_waste(operation.shape)
        compute = operation.flops * waste / (measured or _rate(operation, rates))
    elif operation.flops and operation.kind == "attention" and operation.dtype in FLOATING:
        compute = operation.flops / _rate(operation, rates)
    return max(launch, traffic, compute)


def tile_waste(shape: tuple[int, ...]) -> float:
    """How much more a matrix product computes because tiles are whole: at least 1. `shape` as in a trace."""
    if len(shape) != 4 or not all(shape):
        return 1.0
    _, rows, columns, _ = shape
    return math.ceil(rows / TILE) * math.ceil(columns / TILE) * TILE**2 / (rows * columns)


def _size(product: TracedOperation | MatmulRate) -> tuple[int, ...]:
    return (*product.shape[:1], *sorted(product.shape[1:3]), *product.shape[3:])


def _rate(operation: TracedOperation, rates: DeviceRates) -> float:
    dtype, table = operation.dtype, rates.matmul_flops_per_second
    if operation.kind == "attention" and rates.attention_flops_per_second:
        table = rates.attention_flops_per_second
        kernels = (name.split()[0] for name in table if name.endswith(f" {dtype}"))
        kernel = next((kernel for kernel in kernels if kernel in operation.name), None)
        dtype = dtype if kernel is None else f"{kernel} {dtype}"
    rate = table.get(dtype)
    if not rate:
        raise ValueError(f"{rates.device_model}: no rate of {operation.dtype} {operation.kind} is known")
    return rate


def scope_of(ranks: tuple[int, ...], layout: Layout) -> Scope:
    """Check whether the ranks are on one node or on several."""
    return "node" if len({layout.node_of(rank) for rank in ranks}) <= 1 else "cluster"


def sent_bytes(collective: TracedCollective) -> float:
    """Bytes that one rank sends in one communication."""
    size = len(collective.ranks)
    if size <= 1:
        return 0.0
    if collective.collective in ("broadcast", "reduce", "send_receive"):
        return float(collective.bytes)
    rounds = 2 if collective.collective == "all_reduce" else 1
    return rounds * (size - 1) / size * collective.bytes


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
    messages = (2 if collective.collective == "all_reduce" else 1) * (len(collective.ranks) - 1)
    if collective.collective == "send_receive":
        messages = 1
    return link.latency_seconds * messages + sent_bytes(collective) / _bandwidth(link, collective, rates, layout)


def _link(rates: DeviceRates, scope: Scope) -> LinkRate | None:
    return next((link for link in rates.links if link.scope == scope), None)


def _bandwidth(link: LinkRate, collective: TracedCollective, rates: DeviceRates, layout: Layout) -> float:
    """Bytes/s of one rank, of all that it sends: on several nodes, the ranks of a node share its adapters."""
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
