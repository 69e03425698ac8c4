"""The two sides of `llmperf explain`: a measured run, a published row, or the estimate of the run's own case."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from llmperf import load_plan, planned_case
from llmperf.errors import LlmperfError, UserError, unknown
from llmperf.reporting import result_sheet, sheet_values
from llmperf.types import Plan, Result
from llmperf.types.flop_counts import Precision
from llmperf.types.rates import DeviceRates
from llmperf.types.tracing import StepProfile
from llmperf.validation import read_run_result
from llmperf_compare.documents import opened_results, read_baselines
from llmperf_compare.kinds import compared_with_figures, grouped

from llmperf_estimate.estimate import estimate_of
from llmperf_estimate.traces import analytic_traces
from llmperf_estimate.types import Estimate

PUBLISHED = "published"
SETTINGS = (
    *("model", "seq_len", "precision", "global_batch"),
    *("tensor_parallel", "pipeline_parallel", "sharding_stage", "micro_batch"),
)
"""Values of a published row that its plan is made with; gradient accumulation follows from the global batch."""
Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two figures, and what is known of how it was made. Unknown is None."""

    name: str
    values: Mapping[str, Value]
    """Exact values by the column names of `llmperf report --format csv`."""
    result: Result | None = None
    """None unless llmperf measured it."""
    plan: Plan | None = None
    """Of the run folder; of a row, for its device and with the settings that it states."""
    rates: DeviceRates | None = None
    profile: StepProfile | None = None
    """The steps that the run has traced."""
    estimate: Estimate | None = None
    """Where the side is an estimate."""

    def number(self, name: str) -> float | None:
        """The value of this name, if it is a number above 0."""
        value = self.values.get(name)
        return float(value) if isinstance(value, int | float) and value > 0 else None

    @property
    def tokens(self) -> float | None:
        """Tokens a second of one whole device."""
        return self.number("tokens_per_second_per_whole_device") or self.number("tokens_per_second_per_device")

    @property
    def mfu(self) -> float | None:
        """As printed, by whatever convention; otherwise nominal."""
        return self.number("mfu_nominal") or self.number("mfu_computed")

    @property
    def flops(self) -> Mapping[str, float]:
        """FLOPs of a token, by convention."""
        if self.result is not None:
            return {mfu.convention: mfu.flops_per_token for mfu in self.result.mfu}
        return {} if self.plan is None else {each.convention: each.flops for each in self.plan.flops.per_token}

    @property
    def peak(self) -> tuple[float, str] | None:
        """FLOP/s of a whole device, and their dtype and source."""
        if self.result is None:
            peak = None if self.plan is None else self.plan.peak
            return None if peak is None else (peak.flops_per_second, f"{peak.dtype}, {peak.source}")
        mfu, share = self.result.mfu[0] if self.result.mfu else None, self.result.hardware.device_share
        if mfu is None or not mfu.peak_flops_per_second or not share:
            return None
        return mfu.peak_flops_per_second / share, f"{mfu.peak_dtype}, {mfu.peak_source}"


def run_side(path: Path) -> Side:
    """A measured run: a run folder or its result.json. UserError if it cannot be read, or has no throughput."""
    result = read_run_result(path)
    if result.status != "complete" or not result.metrics.tokens_per_second_per_device:
        raise UserError(f"{path}: expected a complete run with a throughput, found one that is {result.status}")
    folder, profile = path if path.is_dir() else path.parent, None
    plan = load_plan(folder) if (folder / "plan.json").is_file() else None
    if (folder / "records").is_dir() and find_spec("llmperf_trace") is not None:
        from llmperf_trace.differences import traced_run

        traced = traced_run([(folder / "result.json", result)])
        profile = None if traced is None else traced.profile
    values, rates = sheet_values(result_sheet(result)), None if plan is None else plan.rates
    return Side(name=folder.resolve().name, values=values, result=result, plan=plan, rates=rates, profile=profile)


def other_side(name: str, run: Side, warn: Callable[[str], None]) -> Side:
    """The side that `--against` names: `estimate`, a run, `published`, a row FILE:LINE, or a document with one row."""
    if name == "estimate":
        return _estimate_side(run)
    if Path(name).is_dir() or Path(name).name == "result.json":
        return run_side(Path(name))
    place = name
    if name == PUBLISHED and run.result is not None:
        fit = compared_with_figures(grouped([run.result])[0], *read_baselines(PUBLISHED))
        if fit.figure is None or fit.place is None:
            raise UserError(f"--against published: {fit.why}; expected a row FILE:LINE, or a run")
        place = fit.place
    path, _, line = place.rpartition(":") if re.search(r":\d+$", place) else (place, "", "")
    exists = Path(path).exists()
    sheets = opened_results([Path(path if exists else PUBLISHED)], warn)
    ending = f":{line}" if exists else f"{path.removesuffix('.md')}.md:{line}"
    found = [sheet for sheet in sheets if sheet.name.endswith(ending if line else "")] if exists or line else []
    if len(found) != 1:
        known = [sheet.name for sheet in sheets]
        raise unknown("--against", "run, or single published row", name, known)
    values = sheet_values(found[0])
    row = Side(name=found[0].name, values=values)
    keys = [key for key in SETTINGS if values.get(key) and (key != "precision" or values[key] in get_args(Precision))]
    asked = {"case": values.get("case") or run.values.get("case"), "framework": values.get("framework")}
    asked["settings"] = tuple(f"{key}={values[key]}" for key in keys)  # type: ignore[assignment]
    try:
        planned = planned_case(
            asked, f"{values.get('device_model')}:{values.get('nodes')}x{values.get('devices_per_node')}"
        )
    except LlmperfError as error:
        warn(f"{row.name}: FLOPs, peak and the effect of its layout are not known: {error}")
        return row
    rates = planned.assumed_rates if planned.plan is None else planned.plan.rates or planned.assumed_rates
    return replace(row, plan=planned.plan, rates=rates)


def _estimate_side(run: Side) -> Side:
    """The estimate by formulas of what the run has trained, on its device."""
    if run.plan is None:
        raise UserError(f"--against estimate: {run.name}: expected a run folder with plan.json, found the result alone")
    made = estimate_of(run.plan, analytic_traces(run.plan).stages, run.rates, "no rates of the device (llmperf peak)")
    if made.time is None:
        raise UserError(f"--against estimate: {run.name}: its time is not known: {made.time_problem}")
    tokens = (made.tokens_per_second_per_device or 0.0) / run.plan.device_share
    mfu = next((mfu.value for mfu in made.mfu if mfu.headline), None)
    values = {name: run.values.get(name) for name in ("model", "precision", "device_model", "tokens_per_step")}
    values |= {"tokens_per_second_per_whole_device": tokens, "mfu_nominal": mfu}
    return Side(name="the estimate", values=values, plan=run.plan, rates=run.rates, estimate=made)
