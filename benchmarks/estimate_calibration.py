"""Estimates of all published rows against their figures: memory, and throughput with each row left out of the fit.

The rows of held_out_rows.toml are compared too: on devices that nothing is fitted to.

./dev python benchmarks/estimate_calibration.py                      # traces every row: about a quarter of an hour
./dev python benchmarks/estimate_calibration.py --traces FOLDER      # keeps the traces there, and uses those it finds
./dev python benchmarks/estimate_calibration.py --traces FOLDER --trace-timeout 0   # those that it finds alone
./dev python benchmarks/estimate_calibration.py --analytic           # by formulas alone
./dev python benchmarks/estimate_calibration.py --write              # also writes what was fitted, and the errors
                                                                      # (with --analytic those of formulas alone)

Four figures are fitted: the efficiency (published over ideal throughput) of traces and of formulas, and for memory the
share beside tensors and, in the vendors' `rates.toml`, the constant beside them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from llmperf.errors import LlmperfError
from llmperf.files import json_files
from llmperf.planning.build import plan_only
from llmperf.types import DeviceRates, Plan, StepTrace
from llmperf_estimate import calibration
from llmperf_estimate.estimate import MEMORY_PROBLEMS
from llmperf_estimate.seconds import with_network
from llmperf_estimate.step_time import step_time
from llmperf_estimate.traces import Traces, analytic_traces, step_traces
from published_rows import PublishedRow, held_out_rows, published_rows

GIB = 2**30
METHODS = ("fake tensors", "analytic")
TRACE_SECONDS = 3600.0
"""Default time limit of one trace, which is long so that other work on the machine does not matter."""


@dataclass(frozen=True, kw_only=True)
class MemoryFit:
    """Memory of a process beside its tensors."""

    constant: float
    """GiB."""
    share: float
    """Share of the peak of its tensors."""


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """A published row with its plan, its traces and the rates that are assumed."""

    row: PublishedRow
    plan: Plan
    stages: Mapping[int, StepTrace]
    rates: DeviceRates

    def throughput(self) -> float:
        """token/p/s as the roofline, the links and the schedule allow."""
        time, _ = step_time(self.plan, self.stages, self.rates)
        return self.plan.batch.tokens_per_step / (time.seconds - time.loss_seconds) / self.plan.layout.world_size

    def memory_gib(self, fit: MemoryFit) -> list[float]:
        """Tensors and what is beside them, of each stage that the row prints."""
        totals = [trace.memory.peak_bytes / GIB * (1 + fit.share) + fit.constant for trace in self.stages.values()]
        return totals if len(self.row.memory_gib) > 1 else [max(totals)]

    def memory_error(self, fit: MemoryFit) -> float:
        """Relative error of the stage that is farthest off."""
        pairs = zip(self.memory_gib(fit), self.row.memory_gib, strict=True)
        return max((mine / theirs - 1 for mine, theirs in pairs), key=abs)

    def seems_to_fit(self, fit: MemoryFit) -> bool:
        """True if the memory suffices, as it did when the row was published."""
        return max(self.memory_gib(fit)) <= (self.rates.memory_bytes or math.inf) / GIB

    @property
    def method(self) -> str:
        """How it was traced."""
        return " and ".join(dict.fromkeys(trace.method for trace in self.stages.values()))


def estimated(row: PublishedRow, analytic: bool, folder: Path | None, seconds: float = TRACE_SECONDS) -> Estimated:
    """One row, traced or from the folder of traces."""
    outcome = plan_only(*row.request)
    others = [problem.message for problem in outcome.problems if problem.code not in MEMORY_PROBLEMS]
    assert outcome.plan is not None, row.name
    assert not others, (row.name, others)
    rates = outcome.plugins.rates(outcome.plan.probe.devices[0].model)
    assert rates is not None, row.name
    plan = outcome.plan
    traces = analytic_traces(plan) if analytic else _traced(row, plan, folder, seconds)
    rates = with_network(rates, row.network_bytes_per_second, plan.layout.devices_per_node)
    clock = row.power_share ** (
        1 / 3
    )  # dynamic power is capacitance x voltage^2 x clock, and voltage follows the clock
    rates = replace(
        rates,
        memory_bytes_per_second=rates.memory_bytes_per_second * row.bandwidth_share,
        matmul_flops_per_second={name: rate * clock for name, rate in rates.matmul_flops_per_second.items()},
        attention_flops_per_second={name: rate * clock for name, rate in rates.attention_flops_per_second.items()},
    )
    return Estimated(row=row, plan=plan, stages=traces.stages, rates=rates)


def _traced(row: PublishedRow, plan: Plan, folder: Path | None, seconds: float) -> Traces:
    """Rows that differ in the number of micro batches alone have one trace."""
    changes = [setting for setting in row.request.selection.settings if "global_batch" not in setting]
    digest = hashlib.sha256(repr((row.request.site.on, changes)).encode()).hexdigest()[:8]
    path = None if folder is None else folder / f"{row.request.selection.case}-{digest}.json"
    if path is not None and path.exists():
        stages = json_files.load(path, dict[str, StepTrace])  # type: ignore[arg-type]
        return Traces(stages={int(stage): trace for stage, trace in stages.items()}, use=(), notes=())
    traces = step_traces(plan, lambda line: print(f"{row.name}: {line}", file=sys.stderr), seconds)
    for used in traces.use:
        resident = "" if used.peak_resident_bytes is None else f", {used.peak_resident_bytes / GIB:.1f} GiB"
        print(f"{row.name}: rank {used.rank}: {used.seconds:.0f} s{resident} {used.problem or ''}", file=sys.stderr)
    if path is not None and not any(used.problem for used in traces.use):
        path.parent.mkdir(parents=True, exist_ok=True)
        json_files.save(path, {str(stage): trace for stage, trace in traces.stages.items()})
    return traces


def fitted_efficiency(rows: list[Estimated], method: str) -> float | None:
    """The median of published over ideal throughput of the rows that were traced so, at most 1; None without rows."""
    fitted = [item for item in rows if item.method == method and item.row.fitted]
    shares = [(item.row.throughput or 0) / item.throughput() for item in fitted]
    return min(1.0, statistics.median(shares)) if shares else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analytic", action="store_true")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--trace-timeout", type=float, default=TRACE_SECONDS, help="seconds of a trace")
    parser.add_argument("--only", default="", help="part of the name of rows")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    for row in (*published_rows(), *held_out_rows()):
        if options.only in row.name:
            try:
                rows.append(estimated(row, options.analytic, options.traces, options.trace_timeout))
            except LlmperfError as error:
                print(f"{row.name}: {error}", file=sys.stderr)
    with_memory = [item for item in rows if item.row.memory_gib]
    memory = print_memory(with_memory) if with_memory else []
    formulas = [estimated(item.row, True, None) for item in rows]
    rated = [item for item in (*rows, *formulas) if item.row.throughput is not None]
    rated = [item for item in rated if item.method == "fake tensors" or item in formulas]
    throughput = print_throughput(rated) if rated else {}
    if options.write:
        write(rows, rated, [] if options.analytic else memory, throughput)


def fitted_memory(rows: list[Estimated]) -> MemoryFit:
    """The smallest sum of errors with which all published rows fit into their devices."""
    fits = [MemoryFit(constant=constant / 4, share=share / 100) for constant in range(21) for share in range(16)]
    rows = [item for item in rows if item.row.fitted]
    allowed = [fit for fit in fits if all(item.seems_to_fit(fit) for item in rows)]
    return min(allowed, key=lambda fit: sum(abs(item.memory_error(fit)) for item in rows))


def print_memory(rows: list[Estimated]) -> list[float]:
    """The table of memory; returns the error of each distinct figure that is fitted, with a fit on the others."""
    distinct = {(item.row.document, item.row.request.selection.case, item.row.memory_gib): item for item in rows}
    rows = list(distinct.values())
    print("| Row | By | Published GiB | Tensors | Fit on the others | Error |\n|---|---|---|---|---|---|")
    errors = []
    for item in rows:
        fit = fitted_memory([other for other in rows if other is not item])
        error = item.memory_error(fit)
        if item.row.fitted:
            errors.append(abs(error))
        tensors = item.memory_gib(MemoryFit(constant=0, share=0))
        columns = (item.row.memory_gib, tensors, item.memory_gib(fit))
        shown = " | ".join(", ".join(f"{figure:.1f}" for figure in column) for column in columns)
        print(f"| {item.row.name} | {item.method} | {shown} | {error:+.1%} |")
    if not errors:
        return errors
    within = sum(error <= 0.1 for error in errors)
    print(f"\nfitted to all rows: {fitted_memory(rows)}")
    print(f"{within} of {len(errors)} within 10 %, median {statistics.median(errors):.1%}, largest {max(errors):.1%}\n")
    return errors


def print_throughput(rows: list[Estimated]) -> dict[str, list[float]]:
    """The table of throughput; returns the error of each row with a fit on the others, in their order, by method."""
    print("| Row | By | Published token/p/s | Ideal | Fit on the others | Error |\n|---|---|---|---|---|---|")
    errors: dict[str, list[float]] = {}
    for item in rows:
        published = item.row.throughput or 1
        ideal = item.throughput()
        fit = ideal * (fitted_efficiency([other for other in rows if other is not item], item.method) or 1.0)
        errors.setdefault(item.method, []).append(fit / published - 1)
        shown = f"{published:,.0f} | {ideal:,.0f} | {fit:,.0f} | {fit / published - 1:+.1%}"
        print(f"| {item.row.name} | {item.method} | {shown} |")
    fits = {method: fitted_efficiency(rows, method) for method in METHODS}
    print(f"\nefficiency fitted to all rows: {fits}")
    for method, parts in errors.items():
        sizes = [abs(error) for error in parts]
        print(f"error, left out of the fit, {method}: median {statistics.median(sizes):.1%}, largest {max(sizes):.1%}")
    return errors


def write(
    rows: list[Estimated], rated: list[Estimated], memory: list[float], throughput: Mapping[str, list[float]]
) -> None:
    """The efficiency and the errors of every estimate; without figures of memory, those of the file are kept."""
    efficiency = {method: f"{share:.3f}" for method in METHODS if (share := fitted_efficiency(rated, method))}
    figures: dict[str, dict[str, object]] = {"efficiency": dict(efficiency)}
    if memory:
        figures[""] = {"fragmentation": fitted_memory([item for item in rows if item.row.memory_gib]).share}
        figures["memory_error"] = {
            "median": f"{statistics.median(memory):.3f}",
            "within_tenth": sum(error <= 0.1 for error in memory),
            "rows": len(memory),
            "date": f'"{datetime.now(timezone.utc).date().isoformat()}"',
        }
    calibration.FILE.write_text(replaced(calibration.FILE.read_text(), figures))
    kept = [row for row in calibration.throughput_errors() if row.method not in throughput]
    written = sorted([*map(_toml, kept), *_kinds(rated, throughput)])
    head = (
        "# Errors of estimated throughput by kind of published row, as benchmarks/estimate_calibration.py writes them."
    )
    calibration.ERRORS_FILE.write_text("\n".join([head, "", "rows = [", *written, "]"]) + "\n")


def _kinds(rated: list[Estimated], throughput: Mapping[str, list[float]]) -> list[str]:
    kinds: dict[tuple[object, ...], list[float]] = {}
    for method, errors in throughput.items():
        for item, error in zip((item for item in rated if item.method == method), errors, strict=True):
            spec, device = item.plan.spec, item.plan.probe.devices[0].model
            recipe, mixture = spec.contract.precision, spec.model.mixture is not None
            key = (method, item.row.fitted, device, spec.model.family, mixture, recipe)
            kinds.setdefault(key, []).append(round(error, 3))
    names = ("method", "fitted", "device", "family", "mixture", "precision")
    return [
        _toml(calibration.ThroughputErrors(**dict(zip(names, key, strict=True)), errors=tuple(errors)))  # type: ignore[arg-type]
        for key, errors in kinds.items()
    ]


def _toml(row: calibration.ThroughputErrors) -> str:
    values = ", ".join(f"{name} = {json.dumps(value)}" for name, value in json_files.builtins(row).items())
    return f"    {{ {values} }},"


def replaced(text: str, figures: Mapping[str, Mapping[str, object]]) -> str:
    """The text of the file with other figures, by table and key without quotes."""
    lines, table = [], ""
    for line in text.splitlines():
        if line.startswith("["):
            table = line.strip("[]").replace('"', "")
        name, _, _ = line.partition(" = ")
        figure = figures.get(table, {}).get(name.strip('"'))
        lines.append(line if figure is None else f"{name} = {figure}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
