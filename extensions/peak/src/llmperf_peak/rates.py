"""The rates of this machine's devices: single operations that ranks time, as rates of one whole device."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from llmperf import decode, planned_task, plugins_answering, rank_records, this_machine
from llmperf.errors import RunFailed, UserError, unknown
from llmperf.types import CollectiveRate, DeviceRates, LinkRate, MatmulRate, OperationToTime, Plan
from llmperf.types.commands import PlannedTask
from llmperf.types.records import FurtherRecord, Record
from llmperf.types.result import OTHER_CPU_SHARE
from llmperf.validation import known_library

from llmperf_peak.kept_rates import keep
from llmperf_peak.rank import HOOK, PeakRecord, PeakTask, TimedOperation, flops

COLLECTIVES = {"all_reduce": 2, "all_gather": 1}
"""How often each byte crosses a link, in the limit of many ranks."""
DTYPES = ("bf16", "fp16", "tf32", "fp32")
UNKNOWN_MEMORY_BYTES = 2**32
"""Memory to count on where a device does not show its own."""
NOTE = "single operations were timed in place of training"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRates:
    """The outcome."""

    rates: DeviceRates
    """Rates of one whole device."""
    timed: tuple[Timed, ...]
    """Every operation."""
    wrong: tuple[str, ...]
    """A line for each operation with a wrong output, whose figure is not used."""
    kept: Path | None
    """File in which later runs on this machine find the rates; None if they were not kept."""
    not_kept: str | None
    """The reason why they were not kept, in one line."""


def measure_peak(
    vendor: str | None,
    framework: str | None,
    devices: int | None,
    model: str,
    dtypes: tuple[str, ...],
    seconds: float,
    show: Callable[[TimedOperation], None],
) -> MeasuredRates:
    """Time single operations on the devices of this machine, all ranks at the same time, and keep the rates."""
    machine = this_machine(vendor)
    offered = [dtype for dtype in DTYPES if dtype in machine.probe.offers.precisions]
    for dtype in dtypes:
        if dtype not in offered:
            raise unknown("--dtype", f"precision of {machine.vendor}", dtype, offered)
    frameworks = plugins_answering(HOOK, "framework")
    framework = framework or next(iter(frameworks), None)
    devices = devices or (None if machine.divisible else len(machine.probe.devices))
    timed_model = known_library().model(model, "--model")
    if timed_model.counted is not None:
        raise UserError(f"--model {model}: expected a model with the shapes of its products, found a counted model")
    settings = [f"contract.precision={offered[-1]}"] if offered and "fp32" not in offered else []
    settings += ["tuning.micro_batch=1", "tuning.sharding_stage=0"]
    if devices is not None:
        settings.append(f"contract.global_batch={devices}")
    asked = {"vendor": machine.vendor, "framework": framework, "devices": devices, "settings": tuple(settings)}
    with planned_task(asked) as planned:
        if not planned.answers(HOOK):
            expected = f"expected one of: {', '.join(frameworks) or 'none is installed'}"
            raise UserError(
                f"framework {planned.plan.spec.tuning.framework}: it provides no operations to time; {expected}"
            )
        memory = planned.plan.probe.devices[0].memory_bytes or UNKNOWN_MEMORY_BYTES
        task = PeakTask(
            model=timed_model,
            dtypes=dtypes or tuple(offered),
            rank_memory_bytes=int(memory * planned.plan.device_share),
            seconds=seconds,
        )
        return measured_rates(planned, task, show)


def measured_rates(planned: PlannedTask, task: PeakTask, show: Callable[[TimedOperation], None]) -> MeasuredRates:
    """Have the ranks of a planned run do the task, and keep the rates; RunFailed if figures are missing."""

    def show_timed(record: Record) -> None:
        for peak_record in peak_records([record]):
            for timed in peak_record.timed:
                show(timed)

    plan, operations = planned.plan, dict[OperationToTime, list[TimedOperation]]()
    conditions = dict[str, str]()
    with tempfile.TemporaryDirectory(prefix="llmperf-peak-") as folder:
        finished = planned.run(Path(folder), "peak", task, NOTE, show_timed)
        for rank in range(plan.layout.world_size):
            for done in peak_records(rank_records(finished.folder, rank)):
                conditions |= done.conditions
                for each in done.timed:
                    operations.setdefault(each.operation, []).append(each)
    timed = [Timed(operation, runs) for operation, runs in operations.items()]
    known = {"ranks": str(plan.layout.world_size), "llmperf": plan.llmperf_version}
    if plan.probe.driver is not None:
        known["driver"] = plan.probe.driver
    known |= conditions
    share, others = finished.other_cpu_share, finished.other_processes
    if share is not None:
        known["host CPU used by others"] = f"{100 * share:.0f} %"
    if finished.celsius is not None:
        low, high = finished.celsius
        known["temperature"] = f"{low:.0f} to {high:.0f} C"
    if finished.throttled is not None:
        known["throttled"] = ", ".join(finished.throttled) or "no"
    rates = rates_of(plan, timed, known)
    wrong = tuple(
        f"{each.operation.kind} {each.operation.dtype} {'x'.join(map(str, each.operation.shape))}: {each.problem}"
        for each in timed
        if each.problem is not None
    )
    kept, not_kept = None, None
    cores = int(plan.probe.devices[0].details.get("cores", 0)) if plan.probe.on_cpu else 0
    threads = int(plan.env.get("OMP_NUM_THREADS", cores))
    if wrong:
        not_kept = "an output was wrong"
    elif plan.interpreter is not None:
        not_kept = f"ranks ran in another Python environment, {plan.interpreter.path}"
    elif threads < cores // plan.layout.devices_per_node:
        not_kept = f"each rank had {threads} threads, {cores} cores are here; measure again without OMP_NUM_THREADS"
    elif plan.probe.on_cpu and share is not None and share > OTHER_CPU_SHARE:
        used = f"other processes used {100 * share:.0f} % of the host's cores"
        not_kept = f"{used}; measure again when the machine is idle"
    elif not plan.probe.on_cpu and others:
        not_kept = f"{others} other processes computed on the devices; measure again without them"
    else:
        try:
            kept = keep(planned.plan.probe, finished.packages, rates)
        except UserError as error:
            not_kept = str(error)
    return MeasuredRates(rates=rates, timed=tuple(timed), wrong=wrong, kept=kept, not_kept=not_kept)


def peak_records(records: Iterable[Record]) -> Iterator[PeakRecord]:
    """Those among the records of a rank that its task has written."""
    for record in records:
        if isinstance(record, FurtherRecord) and record.kind == "peak":
            yield decode(record.line, PeakRecord, "records")


def rates_of(plan: Plan, timed: Iterable[Timed], conditions: Mapping[str, str]) -> DeviceRates:
    """The rates of a device, from operations with the right output; RunFailed if an indispensable one is missing."""
    share = plan.device_share
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
        raise RunFailed("no matrix product with the right output was timed")
    attention = {
        each.operation.dtype: flops(each.operation) / each.seconds / share
        for each in right
        if each.operation.kind == "attention"
    }
    collectives = tuple(
        CollectiveRate(
            collective="all_reduce" if each.operation.kind == "all_reduce" else "all_gather",
            bytes=size,
            ranks=each.ranks,
            seconds=each.slowest_seconds,
            bus_bytes_per_second=crossings * size / each.slowest_seconds,
            spread=each.spread,
        )
        for each in right
        if each.operation.kind in COLLECTIVES
        for size in each.operation.shape[:1]
        for crossings in (COLLECTIVES[each.operation.kind] * (each.ranks - 1) / each.ranks,)
    )
    links: tuple[LinkRate, ...] = ()
    if reduces := [rate for rate in collectives if rate.collective == "all_reduce"]:
        # bandwidth by the fastest message, latency by the quickest all-reduce over its 2 (ranks - 1) steps
        quickest = min(reduces, key=lambda rate: rate.seconds)
        link = LinkRate(
            scope="node",
            bytes_per_second=max(rate.bus_bytes_per_second for rate in collectives),
            latency_seconds=quickest.seconds / (2 * (quickest.ranks - 1)),
            source=f"measured: collectives of {quickest.ranks} ranks",
        )
        links = (link,)
    launch, copy, read = _only(right, "launch"), _only(right, "copy"), _only(right, "read")
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
        links=links,
        matmuls=matmuls,
        collectives=collectives,
        source="llmperf peak",
        date=plan.created[:10],
        conditions=conditions,
    )


def _only(timed: Iterable[Timed], kind: str) -> Timed:
    for each in timed:
        if each.operation.kind == kind:
            return each
    raise RunFailed(f"{kind}: not timed, or its output was wrong")
