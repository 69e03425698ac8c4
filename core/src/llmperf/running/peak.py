"""`llmperf peak`: from a request to the measured rates of this machine's devices."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.cases.library import whole_library_for
from llmperf.errors import LlmperfError, UserError, unknown
from llmperf.files import json_files
from llmperf.limits.rates import Timed, rates_of, timed_operations, wrong_outputs
from llmperf.limits.task import TASK, LimitsTask
from llmperf.planning.build import plan_run
from llmperf.planning.host_facts import package_versions
from llmperf.planning.measured_rates import keep
from llmperf.planning.ready import ready
from llmperf.planning.states import Planned, Selection, Site
from llmperf.planning.vendors import this_machine
from llmperf.plugins.discovery import find, names
from llmperf.plugins.facts import joined_facts
from llmperf.plugins.loading import Plugins
from llmperf.runfolder.contents import RunRecords
from llmperf.runfolder.filenames import records_path
from llmperf.runfolder.reader import RecordFile
from llmperf.running.launched import SAMPLE_SECONDS, keep_success, run_ranks
from llmperf.running.measure import startable
from llmperf.types.observing import Progress, StepProgress
from llmperf.types.plan import Plan
from llmperf.types.rates import DeviceRates
from llmperf.types.records import LimitsRecord
from llmperf.types.result import OTHER_CPU_SHARE

HOOK = "llmperf_timed_operations"
CASE = "default"
DTYPES = ("bf16", "fp16", "tf32", "fp32")
UNKNOWN_MEMORY_BYTES = 2**32
"""Memory to count on where a device does not show its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakRequest:
    """Request of `llmperf peak`."""

    vendor: str | None = None
    """Whose devices; the best here if None."""
    framework: str | None = None
    """Framework plugin that provides the operations; the first that can if None."""
    devices: int | None = None
    """Ranks; all devices if None, and of a divisible device as many as the default case has."""
    model: str = "llama2_7b"
    """Whose matrix products are timed."""
    dtypes: tuple[str, ...] = ()
    """Dtypes of products; all that the devices offer if empty."""
    seconds: float = 0.4
    """Time for the repeats of each operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
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


class _Progress:
    """Hands on what rank 0 has timed, while the ranks run."""

    def __init__(self, show: Callable[[LimitsRecord], None]) -> None:
        self._show = show
        self._records: RecordFile | None = None

    def started(self, plan: Plan, folder: Path) -> None:
        self._records = RecordFile(records_path(folder, 0))

    def observe(self, progress: Progress, steps: Sequence[StepProgress]) -> None:
        for record in () if self._records is None else self._records.new():
            if isinstance(record, LimitsRecord):
                self._show(record)


def measure_peak(request: PeakRequest, show: Callable[[LimitsRecord], None], warn: Callable[[str], None]) -> Measured:
    """Time single operations on the devices of this machine, all ranks at the same time, and keep the rates.

    `show` gets what rank 0 has timed, as it goes on. UserError for a request that cannot be met; otherwise as
    `measure_limits`.
    """
    planned = _planned(request)
    packages = package_versions(joined_facts(planned.plugins).packages)
    return measure_limits(planned.plan, planned.plugins, packages, show, warn)


def measure_limits(
    plan: Plan,
    plugins: Plugins,
    packages: Mapping[str, str],
    show: Callable[[LimitsRecord], None],
    warn: Callable[[str], None],
) -> Measured:
    """Do what a plan with the purpose `limits` says; RunFailed if a rank fails or indispensable figures are missing."""
    with tempfile.TemporaryDirectory(prefix="llmperf-peak-") as folder:
        run = Path(folder) / plan.run_id
        records = run_ranks(plan, run, plugins, _Progress(show), warn, SAMPLE_SECONDS, None, keep_success)
        timed = timed_operations(run)
        rates = rates_of(records, timed)
    wrong = wrong_outputs(timed)
    kept, not_kept = None, "an output was wrong" if wrong else _disturbance(records)
    if not_kept is None:
        try:
            kept = keep(plan.probe, packages, rates)
        except UserError as error:
            not_kept = str(error)
    return Measured(rates=rates, timed=tuple(timed), wrong=tuple(wrong), kept=kept, not_kept=not_kept)


def _disturbance(records: RunRecords) -> str | None:
    """A message if other processes took too much of the devices for a limit."""
    readings = records.readings.get(0)
    if readings is None:
        return None
    share = readings.other_cpu_share
    if records.plan.probe.on_cpu and share is not None and share > OTHER_CPU_SHARE:
        return f"other processes used {100 * share:.0f} % of the host's cores; measure again when the machine is idle"
    if not records.plan.probe.on_cpu and readings.other_processes:
        return f"{readings.other_processes} other processes computed on the devices; measure again without them"
    return None


def _planned(request: PeakRequest) -> Planned:
    machine = this_machine(request.vendor)
    offers = machine.probe.offers
    offered = [dtype for dtype in DTYPES if dtype in offers.precisions]
    for dtype in request.dtypes:
        if dtype not in offered:
            raise unknown("--dtype", f"precision of {machine.vendor}", dtype, offered)
    framework = request.framework or _framework(machine.vendor)
    devices = request.devices or (None if machine.divisible else len(machine.probe.devices))
    model = whole_library_for("models", request.model).model(request.model, "--model")
    settings = [f"contract.precision={offered[-1]}"] if offered and "fp32" not in offered else []
    settings += ["tuning.micro_batch=1", "tuning.sharding_stage=0"]
    if devices is not None:
        settings.append(f"contract.global_batch={devices}")
    outcome_of_plan = plan_run(
        Selection(CASE, framework=framework, settings=tuple(settings)), Site(vendor=machine.vendor, devices=devices)
    )
    planned = ready(startable(outcome_of_plan))
    if not planned.plugins.answers(HOOK):
        others = _frameworks()
        raise UserError(
            f"--framework {framework}: it provides no operations to time; expected one of: {', '.join(others)}"
        )
    plan = planned.plan
    memory = plan.probe.devices[0].memory_bytes or UNKNOWN_MEMORY_BYTES
    task = LimitsTask(
        model=model,
        dtypes=request.dtypes or tuple(offered),
        rank_memory_bytes=int(memory * plan.device_share),
        seconds=request.seconds,
    )
    files = {**plan.worker.files, TASK: json_files.encode_pretty(task).decode()}
    return replace(planned, plan=replace(plan, purpose="limits", worker=replace(plan.worker, files=files, script=None)))


def _framework(vendor: str) -> str:
    """The first framework that provides operations for the devices; UserError if none does."""
    for name in _frameworks():
        return name
    raise UserError(f"no installed framework provides operations to time for {vendor} devices; see `llmperf plugins`")


def _frameworks() -> list[str]:
    usable = []
    for name in names("framework"):
        try:
            if Plugins([find("framework", name)]).answers(HOOK):
                usable.append(name)
        except LlmperfError:
            continue
    return usable
