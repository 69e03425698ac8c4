"""The order of many runs in a table: by model, then by contract, and within one contract the fastest first."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from llmperf.reporting.contract_parts import contract_parts
from llmperf.types import Result

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked(Generic[T]):
    """One line of a table, and what its place depends on."""

    model: str
    """As it is shown."""
    contract: Hashable
    """Equal where the figures measure the same thing."""
    figure: float | None
    """token/p/s; None where unknown, which comes last."""
    line: T
    """What is put in order."""


def model_text(name: str, lora: bool) -> str:
    """`llama2_7b`, or `llama2_7b + LoRA` where only adapters are trained."""
    return f"{name} + LoRA" if lora else name


def ranked_run(result: Result, line: T, figure: float | None) -> Ranked[T]:
    """A line that stands for measured runs of one contract."""
    model = model_text(result.model.name, result.contract.lora is not None)
    contract = tuple(sorted(contract_parts(result).items()))
    return Ranked(model=model, contract=contract, figure=figure, line=line)


def in_order(lines: Sequence[Ranked[T]]) -> list[T]:
    """Models by name; of one model the contract with the fastest run first; of one contract the fastest run first."""
    best: dict[Hashable, float] = {}
    for one in lines:
        key = one.model, one.contract
        best[key] = max(best.get(key, -inf), _figure(one))
    first = {key: place for place, key in enumerate(best)}

    def place(one: Ranked[T]) -> tuple[str, float, int, float]:
        key = one.model, one.contract
        return one.model, -best[key], first[key], -_figure(one)

    return [one.line for one in sorted(lines, key=place)]


def _figure(one: Ranked[T]) -> float:
    return -inf if one.figure is None else one.figure
