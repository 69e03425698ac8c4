"""What ranks have timed, as rates of one whole device."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from llmperf.errors import RunFailed
from llmperf.limits.task import flops
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import RunRecords, samples_of
from llmperf.runfolder.reader import read_records
from llmperf.types.limits import OperationToTime, TimedOperation
from llmperf.types.rates import CollectiveRate, DeviceRates, LinkRate, MatmulRate
from llmperf.types.records import LimitsRecord

COLLECTIVES = {"all_reduce": 2, "all_gather": 1}
"""How often each byte crosses a link, in the limit of many ranks."""
SOURCE = "llmperf peak"


class Timed:
    """One operation on all ranks."""

    def __init__(self, operation: OperationToTime, runs: list[TimedOperation]) -> None:
        self.operation = operation
        self.seconds = statistics.median(run.median_seconds for run in runs)
        """Median over the ranks, each with its median."""
        self.slowest_seconds = max(run.median_seconds for run in runs)
        self.spread = max((run.high_seconds - run.low_seconds) / max(run.median_seconds, 1e-12) for run in runs)
        self.ranks = runs[0].ranks
        self.problem = next((run.problem for run in runs if run.problem is not None), None)


def timed_operations(run: Path) -> list[Timed]:
    """The operations in the records of a run folder, in their order."""
    by_operation: dict[OperationToTime, list[TimedOperation]] = defaultdict(list)
    for record in _records(run):
        if record.timed is not None:
            by_operation[record.timed.operation].append(record.timed)
    return [Timed(operation, runs) for operation, runs in by_operation.items()]


def wrong_outputs(timed: Iterable[Timed]) -> list[str]:
    """A line for each operation whose output was wrong."""
    return [
        f"{each.operation.kind} {each.operation.dtype} {'x'.join(map(str, each.operation.shape))}: {each.problem}"
        for each in timed
        if each.problem is not None
    ]


def rates_of(records: RunRecords, timed: Iterable[Timed]) -> DeviceRates:
    """The rates of a device, from operations with the right output; RunFailed if an indispensable one is missing."""
    plan, share = records.plan, records.plan.device_share
    right = [each for each in timed if each.problem is None]
    matmuls = tuple(
        MatmulRate(
            dtype=each.operation.dtype,
            shape=each.operation.shape,
            flops_per_second=flops(each.operation) / each.seconds / share,
            spread=each.spread,
        )
        for each in right
        if each.operation.kind == "matmul"
    )
    best: dict[str, float] = {}
    for matmul in matmuls:
        best[matmul.dtype] = max(best.get(matmul.dtype, 0.0), matmul.flops_per_second)
    if not best:
        raise RunFailed(f"{records.run}: no matrix product with the right output was timed")
    attention = {
        each.operation.dtype: flops(each.operation) / each.seconds / share
        for each in right
        if each.operation.kind == "attention"
    }
    collectives = tuple(_collective(each) for each in right if each.operation.kind in COLLECTIVES)
    launch = _only(right, "launch", records.run)
    copy, read = _only(right, "copy", records.run), _only(right, "read", records.run)
    device = plan.probe.devices[0]
    return DeviceRates(
        device_model=device.model,
        basis="measured",
        matmul_flops_per_second=best,
        attention_flops_per_second=attention,
        memory_bytes_per_second=2 * copy.operation.shape[0] / copy.seconds / share,
        memory_read_bytes_per_second=read.operation.shape[0] / read.seconds / share,
        launch_seconds=launch.seconds / launch.operation.shape[0],
        memory_bytes=device.memory_bytes,
        links=_links(collectives),
        matmuls=matmuls,
        collectives=collectives,
        source=SOURCE,
        date=plan.created[:10],
        conditions=_conditions(records),
    )


def _collective(each: Timed) -> CollectiveRate:
    size = each.operation.shape[0]
    crossings = COLLECTIVES[each.operation.kind] * (each.ranks - 1) / each.ranks
    return CollectiveRate(
        collective="all_reduce" if each.operation.kind == "all_reduce" else "all_gather",
        bytes=size,
        ranks=each.ranks,
        seconds=each.slowest_seconds,
        bus_bytes_per_second=crossings * size / each.slowest_seconds,
        spread=each.spread,
    )


def _links(collectives: tuple[CollectiveRate, ...]) -> tuple[LinkRate, ...]:
    """Bandwidth by the fastest message, latency by the quickest all-reduce over its 2 (ranks - 1) steps."""
    reduces = [rate for rate in collectives if rate.collective == "all_reduce"]
    if not reduces:
        return ()
    quickest = min(reduces, key=lambda rate: rate.seconds)
    return (
        LinkRate(
            scope="node",
            bytes_per_second=max(rate.bus_bytes_per_second for rate in collectives),
            latency_seconds=quickest.seconds / (2 * (quickest.ranks - 1)),
            source=f"measured: collectives of {quickest.ranks} ranks",
        ),
    )


def _conditions(records: RunRecords) -> dict[str, str]:
    plan = records.plan
    conditions = {"ranks": str(plan.layout.world_size), "llmperf": plan.llmperf_version}
    if plan.probe.driver is not None:
        conditions["driver"] = plan.probe.driver
    conditions.update(next((dict(record.conditions) for record in _records(records.run) if record.conditions), {}))
    readings = records.readings.get(0)
    if readings is not None and (others := readings.other_cpu_share) is not None:
        conditions["host CPU used by others"] = f"{100 * others:.0f} %"
    heat = [
        device.temperature_celsius
        for sample in samples_of(records.run, plan.layout.nodes)
        for device in sample.devices
        if device.temperature_celsius is not None
    ]
    if heat:
        conditions["temperature"] = f"{min(heat):.0f} to {max(heat):.0f} C"
    if readings is not None and readings.throttled:
        conditions["throttled"] = ", ".join(sorted(readings.throttled))
    elif readings is not None and readings.throttle_known:
        conditions["throttled"] = "no"
    return conditions


def _only(timed: Iterable[Timed], kind: str, run: Path) -> Timed:
    for each in timed:
        if each.operation.kind == kind:
            return each
    raise RunFailed(f"{run}: {kind}: not timed, or its output was wrong")


def _records(run: Path) -> Iterable[LimitsRecord]:
    for path in filenames.record_files(run):
        yield from (record for record in read_records(path) if isinstance(record, LimitsRecord))
