"""The conventions that FLOPs per token are published in: which weights and which attention each counts, by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from llmperf.errors import UserError, unknown
from llmperf.files.json_files import convert
from llmperf.files.user_files import read_toml

Weights = Literal["nominal", "total", "active", "without_embedding", "multiplied"]
Attention = Literal["none", "full", "causal", "windowed", "half_windows"]
RECOMPUTE = "recompute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """The operations that one convention counts; `data/conventions.toml` explains the choices."""

    name: str
    """Name, such as `causal`, or the choices themselves: `active+causal`."""
    weights: Weights
    """Whose products are counted."""
    attention: Attention
    """The scores and weighted values that are counted."""
    recompute: bool = False
    """The forward pass that gradient checkpointing repeats is counted."""
    known_as: tuple[str, ...] = ()
    """Programs and papers that count in this way."""
    near: tuple[str, ...] = ()
    """Programs whose figures differ by less than 0.1 %."""
    in_results: bool = True
    """Results have an MFU by it."""
    source: str = ""
    """Publication of the convention."""

    @property
    def title(self) -> str:
        """The name with the programs that count in this way, such as `full (torchtitan, MaxText)`."""
        users = [*self.known_as, *(f"nearly {program}" for program in self.near)]
        return f"{self.name} ({', '.join(users)})" if users else self.name


@cache
def known_conventions() -> dict[str, Convention]:
    """The named conventions."""
    path = Path(__file__).parents[1] / "data" / "conventions.toml"
    tables = read_toml(path)
    return {name: convert({"name": name, **table}, Convention, str(path)) for name, table in tables.items()}


def convention_of(text: str, where: str = "convention") -> Convention:
    """A convention by its name, by the name of a program that uses it, or by its choices.

    Choices are `WEIGHTS+ATTENTION` or `WEIGHTS+ATTENTION+recompute`. UserError with the closest name otherwise.
    """
    named = {convention.name: convention for convention in known_conventions().values()}
    for convention in known_conventions().values():
        named |= {name.casefold(): convention for name in convention.known_as}
    if text.casefold() in named:
        return named[text.casefold()]
    if "+" not in text:
        raise unknown(where, "convention", text, named)
    weights, attention, *more = text.split("+")
    if more not in ([], [RECOMPUTE]):
        raise UserError(f"{where}: expected WEIGHTS+ATTENTION or WEIGHTS+ATTENTION+{RECOMPUTE}, found {text!r}")
    if weights not in get_args(Weights):
        raise unknown(where, "choice of weights", weights, get_args(Weights))
    if attention not in get_args(Attention):
        raise unknown(where, "choice of attention", attention, get_args(Attention))
    choices = {"name": text, "weights": weights, "attention": attention, "recompute": bool(more)}
    return convert(choices, Convention, where)
