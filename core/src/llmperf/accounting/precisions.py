"""Precision recipes, and the peak of a device that computes each product at the peak of its dtype."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.accounting.counting import Attention, forward_flops, known_conventions
from llmperf.errors import unknown
from llmperf.files.json_files import convert
from llmperf.files.user_files import read_toml
from llmperf.types.flop_counts import PeakPart, PrecisionRecipe, WeightedPeak

if TYPE_CHECKING:
    from llmperf.types import Contract, Dtype, Model, Plan


@cache
def precision_recipes() -> dict[str, PrecisionRecipe]:
    """All recipes of `data/precisions.toml`."""
    path = Path(__file__).parents[1] / "data" / "precisions.toml"
    return {
        name: convert({"name": name, **table}, PrecisionRecipe, f"{path}: {name}")
        for name, table in read_toml(path).items()
    }


def precision_recipe(name: str) -> PrecisionRecipe:
    """The recipe that `contract.precision` names; UserError with the closest name otherwise."""
    recipes = precision_recipes()
    if name not in recipes:
        raise unknown("contract.precision", "recipe", name, recipes)
    return recipes[name]


def products_dtype(contract: Contract) -> Dtype:
    """The dtype of most matrix products of a run, with whose peak its throughput is compared."""
    return precision_recipe(contract.precision).products


BLOCK_PROJECTIONS = ("attention projections", "feed-forward", "experts", "shared experts")
"""Components whose products the recipes with `covers = "block projections"` compute in their own dtype."""


def weighted_peaks(plan: Plan) -> dict[str, WeightedPeak]:
    """Weighted peaks by convention, of one rank's share of a device; empty for one dtype, or if a peak is unknown."""
    spec, peak, rest = plan.spec, plan.peak, plan.rest_peak
    recipe = precision_recipe(spec.contract.precision)
    if not recipe.mixed or plan.flops.counted_by != "core" or peak is None or rest is None:
        return {}
    known = {
        dtype: (each.flops_per_second * plan.device_share, each.source)
        for dtype, each in ((recipe.products, peak), (recipe.rest, rest))
    }
    named = [entry.convention for entry in plan.flops.per_token]
    return {name: weighted_peak(work_shares(spec.model, spec.contract, name), known) for name in named}


def work_shares(model: Model, contract: Contract, convention: str) -> dict[Dtype, float]:
    """Shares of the FLOPs that a convention counts, by the dtype in which a contract has them computed."""
    recipe = precision_recipe(contract.precision)
    attention: Attention = "none" if contract.packing == "padded" else known_conventions()[convention].attention
    flops = forward_flops(model, contract.seq_len, attention)
    total = sum(flops.values())
    shares: dict[Dtype, float] = {}
    for component, count in flops.items():
        covered = recipe.covers == "all" or component in BLOCK_PROJECTIONS
        dtype = recipe.products if covered else recipe.rest
        shares[dtype] = shares.get(dtype, 0.0) + count / total
    return shares


def weighted_peak(shares: Mapping[Dtype, float], peaks: Mapping[Dtype, tuple[float, str]]) -> WeightedPeak:
    """The peak of shares of work; `peaks` has FLOP/s and their source for each dtype."""
    parts = tuple(
        PeakPart(dtype=dtype, share=share, peak_flops_per_second=peaks[dtype][0], peak_source=peaks[dtype][1])
        for dtype, share in shares.items()
    )
    seconds = sum(part.share / part.peak_flops_per_second for part in parts)
    return WeightedPeak(flops_per_second=1 / seconds, parts=parts)
