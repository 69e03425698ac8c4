"""Search space: the settings with the values that each may take, and the candidates that they combine to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from llmperf.errors import UserError

MOST_CANDIDATES = 2048
"""Combinations that are planned before the search; planning one takes some 0.05 s."""
MOST_VALUES = 64
"""Values of one setting."""
UNSET = "(unset)"
"""Stands for an option of the framework that the case does not set."""
Candidate = Mapping[str, str]
"""A value for each searched setting, as `--set` takes it, or UNSET."""


def given(candidate: Candidate) -> dict[str, str]:
    """The settings of a candidate without those that it leaves unset."""
    return {path: value for path, value in candidate.items() if value != UNSET}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One setting and the values that are tried, as `--set` takes them."""

    path: str
    """Such as `tuning.micro_batch`."""
    values: tuple[str, ...]
    """In the order in which they were given."""

    @property
    def ordered(self) -> bool:
        """The values are rising numbers, so that neighbours are alike."""
        try:
            numbers = [float(value) for value in self.values]
        except ValueError:
            return False
        return len(numbers) > 2 and numbers == sorted(numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """All combinations of the values of some settings."""

    dimensions: tuple[Dimension, ...]

    @property
    def size(self) -> int:
        """Combinations, whether they can run or not."""
        return prod(len(dimension.values) for dimension in self.dimensions)

    def candidates(self) -> Iterator[Candidate]:
        """Every combination."""
        paths = [dimension.path for dimension in self.dimensions]
        for values in product(*(dimension.values for dimension in self.dimensions)):
            yield dict(zip(paths, values, strict=True))


def parsed(searches: Sequence[str]) -> Space:
    """The space of `--search PATH=A,B,C` options; UserError for one that is not valid."""
    dimensions: dict[str, Dimension] = {}
    for text in searches:
        path, equals, listed = text.partition("=")
        values = tuple(dict.fromkeys(_split(listed)))
        if not equals or not path or "" in values:
            raise UserError(f"--search {text}: expected PATH=VALUE,VALUE,..., such as micro_batch=1,2,4")
        full = path if "." in path else f"tuning.{path}"
        if full.startswith("contract.") or full == "tuning.gradient_accumulation":  # a global batch follows from it
            raise UserError(f"--search {path}: a search never changes the contract; expected tuning.* or framework.*")
        if full in dimensions:
            raise UserError(f"--search {path}: given twice")
        if len(values) > MOST_VALUES:
            raise UserError(f"--search {path}: expected at most {MOST_VALUES} values, found {len(values)}")
        dimensions[full] = Dimension(path=full, values=values)
    return checked(Space(dimensions=tuple(dimensions.values())))


def _split(listed: str) -> Iterator[str]:
    """The values of a list with commas; commas in brackets belong to a value: `[],["rope","swiglu"]`."""
    depth, begin = 0, 0
    for place, character in enumerate(listed):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            yield listed[begin:place].strip()
            begin = place + 1
    yield listed[begin:].strip()


def checked(space: Space) -> Space:
    """The space; UserError if it is too large to be planned."""
    if space.size > MOST_CANDIDATES:
        sizes = " x ".join(f"{len(each.values)} {each.path}" for each in space.dimensions)
        message = f"expected at most {MOST_CANDIDATES} combinations, found {sizes} = {space.size}"
        raise UserError(f"--search: {message}; give fewer values")
    return space


def default_space(plan: Mapping[str, Any]) -> Space:
    """Default search space: settings that often matter, around those of the `plan` of `llmperf plan --json`."""
    tuning, contract = plan["spec"]["tuning"], plan["spec"]["contract"]
    ranks = tuning["nodes"] * tuning["devices"]
    share = contract["global_batch"] // plan["batch"]["data_parallel"]
    dimensions = [_numbers("micro_batch", [1, 2, 4, 8, 16, 32], tuning, share)]
    if contract["lora"] is None and ranks > 1:
        dimensions.append(_numbers("sharding_stage", [0, 1, 2, 3], tuning, 3))
    dimensions.append(Dimension(path="tuning.gradient_checkpointing", values=("false", "true")))
    dimensions.append(Dimension(path="tuning.compile", values=("false", "true")))
    if ranks > 1:
        dimensions.append(_numbers("tensor_parallel", [1, 2, 4, 8], tuning, ranks))
    return Space(dimensions=tuple(each for each in dimensions if len(each.values) > 1))


def _numbers(name: str, values: Sequence[int], tuning: Mapping[str, Any], most: int) -> Dimension:
    numbers = {value for value in values if value <= most} | {tuning[name]}
    return Dimension(path=f"tuning.{name}", values=tuple(str(number) for number in sorted(numbers)))
