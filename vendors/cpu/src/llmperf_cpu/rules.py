"""Rules for results of a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf import precision_recipe
from llmperf.types import Text
from llmperf.validation import rule

from llmperf_cpu.host import OFFERS, threads_of_a_rank

if TYPE_CHECKING:
    from llmperf.types import PeakFlops, Plan, Result
    from llmperf.validation import RunRecords

PAGE = """# CPU1: A CPU computes in fp32 and bf16

Severity: error. Applies to: result.

No CPU that this plugin supports multiplies matrices in fp8, fp16 or tf32 for training. A result of vendor `cpu` in
such a precision was either emulated and does not say so (`tuning.emulate_precision`), or trained in another precision.
"""


@rule("CPU1", "error", "A CPU computes in fp32 and bf16", page=PAGE)
def precision_of_a_cpu(result: Result) -> Iterator[tuple[str, str]]:
    products = precision_recipe(result.contract.precision).products
    if result.hardware.vendor == "cpu" and not result.tuning.emulate_precision and products not in OFFERS.precisions:
        known = ", ".join(OFFERS.precisions)
        expected = Text("expected products in one of {} on a CPU, unless they are emulated", known)
        yield "/contract/precision", Text("{}, found {}", expected, products)


HIGHEST_HERTZ = 7e9
"""Above the clock of any CPU that is sold."""
WIDEST_FLOPS = {"fp32": 512, "bf16": 2048}
"""FLOPs in a cycle of one core: an outer product of 16 x 16 values by Apple's SME unit, 16 x 16 x 32 by Intel's AMX."""
LEAST_FLOPS = 5e9
"""In fp32 of a logical core of x86: an eighth of what AVX2 does at 2.5 GHz on each of two threads of a core."""

BOUND_PAGE = """# CPU2: A host's peak is possible for its cores

Severity: error. Applies to: plan.

The measured peak of a host is at most its cores x 7 GHz x the widest vector or matrix unit of any known CPU: 512 FLOPs
in a cycle of a core in fp32 (SME), 2048 in bf16 (AMX).
"""
LOW_PAGE = """# CPU3: A host's peak is about that of its cores

Severity: warning. Applies to: plan.

MFU is the higher the lower the peak is. On x86, matrix products in fp32 reach 2e10 FLOP/s and more on a logical core;
less than 5e9 is a peak of another machine, a library that uses one core only, or an emulated processor.
"""


@rule("CPU2", "error", "A host's peak is possible for its cores", "plan", page=BOUND_PAGE)
def possible_peak(plan: Plan) -> Iterator[tuple[str, str]]:
    for peak, cores in _peaks(plan):
        most = cores * HIGHEST_HERTZ * WIDEST_FLOPS.get(peak.dtype, max(WIDEST_FLOPS.values()))
        if peak.flops_per_second > most:
            expected = Text("expected at most {:g} FLOP/s on {} cores of any CPU", most, cores)
            yield "/peak/flops_per_second", Text("{}, found {:g}", expected, peak.flops_per_second)


@rule("CPU3", "warning", "A host's peak is about that of its cores", "plan", page=LOW_PAGE)
def low_peak(plan: Plan) -> Iterator[tuple[str, str]]:
    for peak, cores in _peaks(plan):
        least, architecture = cores * LEAST_FLOPS, plan.probe.devices[0].details.get("architecture")
        if peak.dtype == "fp32" and architecture in ("x86_64", "AMD64") and peak.flops_per_second < least:
            expected = Text("expected at least {:g} FLOP/s on {} cores of x86", least, cores)
            yield "/peak/flops_per_second", Text("{}, found {:g}", expected, peak.flops_per_second)


def _peaks(plan: Plan) -> Iterator[tuple[PeakFlops, int]]:
    """The peak of a plan for a host CPU, with the cores; nothing where one is unknown."""
    details = plan.probe.devices[0].details if plan.probe.devices else {}
    cores = details.get("cores", "")
    if plan.vendor == "cpu" and plan.peak is not None and cores.isdecimal() and 0 < len(cores) < 7:
        yield plan.peak, int(cores)


THREADS_PAGE = """# CPU4: A rank has its share of the cores

Severity: note. Applies to: plan.

By default a rank computes with as many threads as its node has cores for each rank. `OMP_NUM_THREADS` of the controller
chooses another number: fewer threads leave cores idle, more slow one another down.
"""


@rule("CPU4", "note", "A rank has its share of the cores", "plan", page=THREADS_PAGE)
def threads_of_ranks(plan: Plan) -> Iterator[tuple[str, str]]:
    if plan.vendor == "cpu" and (found := plan.env.get("OMP_NUM_THREADS")) not in (None, str(threads_of_a_rank(plan))):
        expected = Text("expected OMP_NUM_THREADS {} = cores / ranks of a node", threads_of_a_rank(plan))
        yield "/env/OMP_NUM_THREADS", Text("{}, found {}", expected, found)


PINNED_PAGE = """# CPU5: A run has all cores of its machine

Severity: warning. Applies to: run.

llmperf was started on a part of the cores, as with `taskset` or by a scheduler. Throughput, peak and MFU are those of
this part, though the device has the name of the whole processor: compare them only with runs on as many cores.
"""


@rule("CPU5", "warning", "A run has all cores of its machine", "run", page=PINNED_PAGE)
def all_cores(records: RunRecords) -> Iterator[tuple[str, str]]:
    plan = records.plan
    details = plan.probe.devices[0].details if plan.vendor == "cpu" and plan.probe.devices else {}
    cores, every = (details.get(name, "") for name in ("cores", "machine_cores"))
    if cores.isdecimal() and every.isdecimal() and (len(cores), cores) < (len(every), every):
        expected = Text("expected all {} cores of the machine, for the run and for its peak", every)
        yield "/hardware/device_share", Text("{}, found {}", expected, cores)
