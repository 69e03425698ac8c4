"""A side of `llmperf explain`: a measured run, a published row, or the estimate of what the other side has trained."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, get_args

from llmperf import load_plan, planned_case
from llmperf.errors import LlmperfError, UserError, unknown
from llmperf.reporting import result_sheet, sheet_values
from llmperf.types import Plan, Result
from llmperf.types.flop_counts import Precision
from llmperf.types.rates import DeviceRates
from llmperf.types.tracing import StepProfile
from llmperf.validation import read_run_result
from llmperf_compare.copies import distinct_results
from llmperf_compare.documents import opened_results, read_baselines, read_results
from llmperf_compare.kind_texts import mixture
from llmperf_compare.kinds import compared_with_figures, grouped
from llmperf_compare.kinds import side_of as compared_side

from llmperf_estimate.any_model import ANY_CASE, SIZE
from llmperf_estimate.estimate import estimate_of
from llmperf_estimate.traces import analytic_traces
from llmperf_estimate.types import Estimate

ESTIMATE, PUBLISHED = "estimate", "published"
SETTINGS = ("model", "seq_len", "precision", "global_batch", "tensor_parallel", "pipeline_parallel", "sharding_stage",
            "micro_batch")  # fmt: skip
"""Values of a published row that its plan is made with; gradient accumulation follows from the global batch."""

FIGURES = ("tokens_per_second_per_device", "tokens_per_second_per_whole_device", "mfu_nominal", "mfu_computed",
           "communication_share", "other_cpu_share")  # fmt: skip
"""Values of a side with several runs that are their medians."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two figures, and what is known of how it was made. Unknown is None."""

    name: str
    values: Mapping[str, str | int | float | bool | None]
    """Exact values by the column names of `llmperf report --format csv`."""
    flops: Mapping[str, float] = field(default_factory=dict)
    """FLOPs of a token, by convention."""
    peak: tuple[float, str] | None = None
    """FLOP/s of a whole device, and their dtype and source."""
    result: Result | None = None
    """None unless llmperf measured it."""
    plan: Plan | None = None
    """Of the run folder; of a row, for its device and with the settings that it states."""
    rates: DeviceRates | None = None
    profile: StepProfile | None = None
    """The steps that the run has traced."""
    repeats: tuple[Side, ...] = ()
    """The runs, where there are several: figures and `profile` are then medians and means, all else is of one run."""
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


def side_of(name: str, warn: Callable[[str], None], other: Side | None = None) -> Side:
    """The side with a name: a run folder, one of repeats, a result.json, or a row `FILE:LINE`; UserError for none.

    Beside an `other` side also `estimate`, that of its own, and `published`, the row that fits it.
    """
    if name == ESTIMATE and other is not None:
        return _estimate_side(other)
    if name != PUBLISHED and (Path(name).is_dir() or Path(name).name == "result.json"):
        return _runs_side(Path(name))
    place = name
    if name == PUBLISHED and other is not None and other.result is not None:
        fit = compared_with_figures(grouped([other.result])[0], *read_baselines(PUBLISHED))
        if fit.figure is None or fit.place is None:
            raise UserError(f"--against published: {fit.why}; expected a row FILE:LINE, or a run")
        place = fit.place
    file, line = re.sub(r"( line |:)\d+$", "", place), re.search(r"\d*$", place)
    exists, number = Path(file).exists(), line[0] if line is not None and file != place else ""
    if not exists and not number:
        raise UserError(f"{name}: no such file; expected a run folder, a result.json, or a published row as FILE:LINE")
    sheets = opened_results([Path(file if exists else PUBLISHED)], warn)
    ending = f":{number}" if exists else f"{file.removesuffix('.md')}.md:{number}"
    found = [sheet for sheet in sheets if sheet.name.endswith(ending if number else "")]
    if len(found) != 1:
        names = [sheet.name for sheet in sheets]
        raise unknown(
            "", "run, or single published row", name, names, listing=f"llmperf report {file if exists else PUBLISHED}"
        )
    values = sheet_values(found[0])
    keys = [key for key in SETTINGS if values.get(key) and (key != "precision" or values[key] in get_args(Precision))]
    case = values.get("case") or (other.values.get("case") if other is not None else None) or ANY_CASE
    words = [f"{key}={values[key]}" for key in keys]
    words += [] if "global_batch" in keys else ["gradient_accumulation=1"]  # no factor needs the number of rounds
    asked: dict[str, Any] = {"case": case, "settings": tuple(words)}
    asked |= {"framework": values["framework"]} if values.get("framework") else {}
    size = f"{values.get('nodes')}x{values.get('devices_per_node')}"
    if not values.get("nodes"):
        size = SIZE
        warn(f"{found[0].name}: it does not say how many nodes and devices: {size} is assumed")
    try:
        planned = planned_case(asked, f"{values.get('device_model')}:{size}")
    except LlmperfError as error:
        warn(f"{found[0].name}: FLOPs, peak and the effect of its layout are not known: {error}")
        return Side(name=found[0].name, values=values)
    if (plan := planned.plan) is None:
        warn(f"{found[0].name}: FLOPs and peak are not known: {planned.problems[0].message}")
        return Side(name=found[0].name, values=values)
    known = {"plan": plan, "rates": plan.rates or planned.assumed_rates, **_formulas(plan)}
    return Side(name=found[0].name, values=values, **known)


def _formulas(plan: Plan) -> dict[str, Any]:
    peak = plan.peak and (plan.peak.flops_per_second, f"{plan.peak.dtype}, {plan.peak.source}")
    return {"flops": {each.convention: each.flops for each in plan.flops.per_token}, "peak": peak}


def _runs_side(path: Path) -> Side:
    """The side of a run, or of the repeats in a folder."""
    if (path if path.name == "result.json" else path / "result.json").exists():
        return _run_side(path, read_run_result(path))
    runs = distinct_results(read_results(path))
    complete = compared_side(runs, len(runs))
    files = {id(result): file for file, result in runs}
    sides = [_run_side(files[id(result)], result) for result in complete.results]
    if not sides:
        raise UserError(f"{path}: expected a complete run with a throughput, found none in {len(runs)} results")
    if complete.mixes:
        raise UserError(
            f"{path}: expected runs of one kind, found {mixture(complete)}; name one run, or another folder"
        )
    if len(sides) == 1:
        return sides[0]
    profiles = [side.profile for side in sides if side.profile is not None]
    values = dict(sorted(sides, key=lambda side: side.tokens or 0.0)[(len(sides) - 1) // 2].values)
    for name in FIGURES:
        known = [value for side in sides if isinstance(value := side.values.get(name), int | float)]
        values[name] = median(known) if known else None
    profile = None
    if profiles:
        from llmperf_trace.step_parts import mean_profile

        profile = mean_profile(profiles)
    return replace(sides[0], name=path.resolve().name, values=values, profile=profile, repeats=tuple(sides))


def _run_side(path: Path, result: Result) -> Side:
    folder, profile = path if path.is_dir() else path.parent, None
    if result.status != "complete" or not result.metrics.tokens_per_second_per_device:
        raise UserError(f"{path}: expected a complete run with a throughput, found one that is {result.status}")
    plan = load_plan(folder) if (folder / "plan.json").is_file() else None
    if (folder / "records").is_dir() and find_spec("llmperf_trace") is not None:
        from llmperf_trace.differences import traced_run

        traced = traced_run([(folder / "result.json", result)])
        profile = None if traced is None else traced.profile
    rank = next((mfu for mfu in result.mfu if mfu.peak_flops_per_second), None)
    whole = (rank.peak_flops_per_second or 0.0) / result.hardware.device_share if rank is not None else 0.0
    return Side(
        name=folder.resolve().name,
        values=sheet_values(result_sheet(result)),
        flops={mfu.convention: mfu.flops_per_token for mfu in result.mfu},
        peak=None if rank is None else (whole, f"{rank.peak_dtype}, {rank.peak_source}"),
        result=result,
        plan=plan,
        rates=None if plan is None else plan.rates,
        profile=profile,
    )


def _estimate_side(of: Side) -> Side:
    """The estimate by formulas of what a side has trained, on its device."""
    if (plan := of.plan) is None:
        raise UserError(f"estimate: {of.name}: expected a run folder with plan.json, or a row that can be planned")
    made = estimate_of(plan, analytic_traces(plan).stages, of.rates, "no rates of the device (llmperf peak)")
    if made.time is None:
        raise UserError(f"estimate: {of.name}: its time is not known: {made.time_problem}")
    tokens = (made.tokens_per_second_per_device or 0.0) / plan.device_share
    values = {name: of.values.get(name) for name in ("model", "precision", "device_model")}
    figures = {"tokens_per_second_per_whole_device": tokens, "tokens_per_step": plan.batch.tokens_per_step,
               "mfu_nominal": next((mfu.value for mfu in made.mfu if mfu.headline), None)}  # fmt: skip
    known = {"plan": plan, "rates": of.rates, "estimate": made, **_formulas(plan)}
    return Side(name="the estimate", values=values | figures, **known)
