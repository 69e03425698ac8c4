"""Estimates of all published rows against their figures: memory, and throughput with each row left out of the fit.

uv run python benchmarks/estimate_calibration.py                      # traces every row: about a quarter of an hour
uv run python benchmarks/estimate_calibration.py --traces FOLDER      # keeps the traces there, and uses those it finds
uv run python benchmarks/estimate_calibration.py --analytic           # by formulas alone
uv run python benchmarks/estimate_calibration.py --write              # also writes what was fitted, and the errors

Three figures are fitted: the efficiency (published over ideal throughput, one figure for all rows), and for memory the
share beside tensors and, in the vendors' `rates.toml`, the constant beside them.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from llmperf.errors import LlmperfError
from llmperf.estimating import calibration
from llmperf.estimating.communication import with_network
from llmperf.estimating.memory import overhead_bytes
from llmperf.estimating.step_time import step_time
from llmperf.files import json_files
from llmperf.planning.build import plan_only
from llmperf.running.estimate import MEMORY_PROBLEMS
from llmperf.running.step_traces import Traces, analytic_traces, step_traces
from llmperf.types import DeviceRates, Plan, StepTrace
from published_rows import NETWORK_BYTES_PER_SECOND, PublishedRow, published_rows

GIB = 2**30
TRACE_SECONDS = 3600.0
"""Time limit of one trace, which is long so that other work on the machine does not matter."""


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

    def memory_gib(self) -> list[float]:
        """With what is assumed beside tensors, of each stage that the row prints."""
        peaks = [trace.memory.peak_bytes for _, trace in sorted(self.stages.items())]
        totals = [(peak + (overhead_bytes(peak, self.rates) or 0)) / GIB for peak in peaks]
        return totals if len(self.row.memory_gib) > 1 else [max(totals)]

    @property
    def method(self) -> str:
        """How it was traced."""
        return " and ".join(dict.fromkeys(trace.method for trace in self.stages.values()))


def estimated(row: PublishedRow, analytic: bool, folder: Path | None) -> Estimated:
    """One row, traced or from the folder of traces."""
    outcome = plan_only(row.request)
    others = [problem.message for problem in outcome.problems if problem.code not in MEMORY_PROBLEMS]
    assert outcome.plan is not None, row.name
    assert not others, (row.name, others)
    rates = outcome.plugins.rates(outcome.plan.probe.devices[0].model)
    assert rates is not None, row.name
    plan = outcome.plan
    traces = analytic_traces(plan) if analytic else _traced(row, plan, folder)
    network = with_network(rates, NETWORK_BYTES_PER_SECOND, plan.layout.devices_per_node)
    return Estimated(row=row, plan=plan, stages=traces.stages, rates=network)


def _traced(row: PublishedRow, plan: Plan, folder: Path | None) -> Traces:
    """Rows that differ in the number of micro batches alone have one trace."""
    changes = [setting for setting in row.request.settings if "global_batch" not in setting]
    key = f"{row.request.case}-{hashlib.sha256(repr((row.request.on, changes)).encode()).hexdigest()[:8]}"
    path = None if folder is None else folder / f"{key}.json"
    if path is not None and path.exists():
        stages = json_files.load(path, dict[str, StepTrace])  # type: ignore[arg-type]
        return Traces(stages={int(stage): trace for stage, trace in stages.items()}, use=(), notes=())
    traces = step_traces(plan, lambda line: print(f"{row.name}: {line}", file=sys.stderr), TRACE_SECONDS)
    for used in traces.use:
        resident = "" if used.peak_resident_bytes is None else f", {used.peak_resident_bytes / GIB:.1f} GiB"
        print(f"{row.name}: rank {used.rank}: {used.seconds:.0f} s{resident} {used.problem or ''}", file=sys.stderr)
    if path is not None and not any(used.problem for used in traces.use):
        path.parent.mkdir(parents=True, exist_ok=True)
        json_files.save(path, {str(stage): trace for stage, trace in traces.stages.items()})
    return traces


def fitted_efficiency(rows: list[Estimated]) -> float:
    """The median of published over ideal throughput."""
    return statistics.median((item.row.throughput or 0) / item.throughput() for item in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analytic", action="store_true")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--only", default="", help="part of the name of rows")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    for row in published_rows():
        if options.only in row.name:
            try:
                rows.append(estimated(row, options.analytic, options.traces))
            except LlmperfError as error:
                print(f"{row.name}: {error}", file=sys.stderr)
    memory = print_memory(rows)
    rated = [item for item in rows if item.row.throughput is not None]
    throughput = print_throughput(rated) if rated else []
    if options.write:
        write(rows, memory, throughput)


def print_memory(rows: list[Estimated]) -> list[float]:
    """The table of memory; returns the largest error of each distinct figure."""
    print("| Row | By | Published GiB | Estimated | Error |\n|---|---|---|---|---|")
    errors = {}
    for item in rows:
        published, ours = item.row.memory_gib, item.memory_gib()
        worst = max((mine / theirs - 1 for mine, theirs in zip(ours, published, strict=True)), key=abs)
        errors[item.row.document, item.row.request.case, published] = abs(worst)
        shown = [", ".join(f"{figure:.1f}" for figure in figures) for figures in (published, ours)]
        print(f"| {item.row.name} | {item.method} | {shown[0]} | {shown[1]} | {worst:+.1%} |")
    within = sum(error <= 0.1 for error in errors.values())
    print(f"\n{within} of {len(errors)} figures within 10 %, largest error {max(errors.values()):.1%}\n")
    return list(errors.values())


def print_throughput(rows: list[Estimated]) -> list[float]:
    """The table of throughput; returns the error of each row with a fit on the others."""
    print("| Row | By | Published token/p/s | Ideal | Fit on the others | Error |\n|---|---|---|---|---|---|")
    errors = []
    for item in rows:
        published = item.row.throughput or 1
        ideal = item.throughput()
        fit = ideal * fitted_efficiency([other for other in rows if other is not item])
        errors.append(abs(fit / published - 1))
        shown = f"{published:,.0f} | {ideal:,.0f} | {fit:,.0f} | {fit / published - 1:+.1%}"
        print(f"| {item.row.name} | {item.method} | {shown} |")
    print(f"\nefficiency fitted to all rows: {fitted_efficiency(rows):.3f}")
    print(f"error, left out of the fit: median {statistics.median(errors):.1%}, largest {max(errors):.1%}")
    return errors


def write(rows: list[Estimated], memory: list[float], throughput: list[float]) -> None:
    """The efficiency and the errors of every estimate."""
    figures = {
        "memory": f"{max(memory):.3f}",
        "memory_rows": len(memory),
        "efficiency": f"{fitted_efficiency([item for item in rows if item.row.throughput is not None]):.3f}",
        "throughput": f"{statistics.median(throughput):.3f}",
        "throughput_rows": len(throughput),
        "date": f'"{datetime.now(timezone.utc).date().isoformat()}"',
    }
    text = calibration.FILE.read_text()
    for name, figure in figures.items():
        text = re.sub(rf"^{name} = .*$", f"{name} = {figure}", text, flags=re.MULTILINE)
    calibration.FILE.write_text(text)


if __name__ == "__main__":
    main()
