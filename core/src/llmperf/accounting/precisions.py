"""The precision recipes, by name."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.errors import unknown
from llmperf.files.json_files import convert
from llmperf.files.user_files import read_toml
from llmperf.types.precision import PrecisionRecipe

if TYPE_CHECKING:
    from llmperf.types import Contract, Dtype


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
