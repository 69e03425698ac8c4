"""World size and batch arithmetic, of results and of plans."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from llmperf.accounting.rank_layout import DEGREES, layout_problems
from llmperf.cases.resolve import MOST_RANKS, size_problems
from llmperf.files.json_files import ByValue
from llmperf.files.text import printable
from llmperf.types import Layout, Result
from llmperf.types.documents import Violation
from llmperf.types.plan_checks import Problem
from llmperf.types.texts import Text, changed
from llmperf.validation.violations import differs, rule, spec_of

if TYPE_CHECKING:
    from llmperf.types import Plan

BOTH = ("result", "plan")
UNEVEN = ("experts_not_divisible", "model_not_divisible", "sequence_not_divisible", "sequence_parallel_alone")
"""Codes of problems with degrees that do not divide what they share."""


def _layout(document: Result | Plan) -> tuple[str, Layout]:
    if not isinstance(document, Result):
        return "/worker/layout", document.layout
    return "/parallelism", document.parallelism


_known_problems = ByValue[tuple[Problem, ...]]()


def _problems(document: Result | Plan, *codes: str) -> Iterator[Violation]:
    """Problems, as planning finds them, with these codes; only those of sizes if a size makes the others take long."""
    spec, path = spec_of(document)
    values = contract, tuning, model = spec.contract, spec.tuning, spec.model

    def found() -> tuple[Problem, ...]:
        degrees: dict[str, int] = {name: int(getattr(tuning, name)) for name in DEGREES}
        problems = list(size_problems(contract, tuning))
        for name, degree in {**degrees, "sharding_degree": tuning.sharding_degree or 1}.items():
            if degree > MOST_RANKS:
                message = Text("expected at most {} ranks, found {}", MOST_RANKS, degree)
                problems.append(Problem(code="value_too_large", where=f"tuning.{name}", message=message))
        return tuple(problems or layout_problems(contract, tuning, model))

    for problem in _known_problems.get(values, found):
        if problem.code in codes:
            message = changed(problem.message, lambda text: printable(text)[:300])
            yield f"{path}/{problem.where.replace('.', '/')}", message


@rule("LP101", "error", "World size is tensor x pipeline x context x data parallel", *BOTH)
def world_size(document: Result | Plan) -> Iterator[Violation]:
    path, layout = _layout(document)
    parts = tuple(layout.degrees.values())
    product = prod(parts)
    if product != layout.world_size:
        because = Text("{} nodes x {} devices", layout.nodes, layout.devices_per_node)
        expected = Text("expected {} parallel = {} ({})", " x ".join(layout.degrees), layout.world_size, because)
        yield path, Text("{}, found {} = {}", expected, " x ".join(map(str, parts)), product)
    if sorted(layout.rank_order) != sorted(layout.degrees):
        found = ", ".join(layout.rank_order[:8]) or Text("none")
        yield f"{path}/rank_order", Text("expected each of {} once, found {}", ", ".join(layout.degrees), found)
    yield from _problems(document, "ranks_not_divisible", "value_too_large")


@rule("LP102", "error", "Global batch is micro batch x gradient accumulation x data parallel", *BOTH)
def global_batch(document: Result | Plan) -> Iterator[Violation]:
    batch = document.batch
    because = f"{batch.micro_batch} x {batch.gradient_accumulation} x {batch.data_parallel}"
    expected = batch.micro_batch * batch.gradient_accumulation * batch.data_parallel
    yield from differs("/batch/global_batch", batch.global_batch, expected, because)


@rule("LP103", "error", "Tokens per step are global batch x sequence length", *BOTH)
def tokens_per_step(document: Result | Plan) -> Iterator[Violation]:
    batch = document.batch
    because = Text("{} sequences x {} tokens", batch.global_batch, batch.seq_len)
    yield from differs("/batch/tokens_per_step", batch.tokens_per_step, batch.global_batch * batch.seq_len, because)


@rule("LP105", "error", "The degrees divide ranks, model and sequence", *BOTH)
def sharding(document: Result | Plan) -> Iterator[Violation]:
    path, layout = _layout(document)
    ranks = layout.data_parallel * layout.context_parallel
    if ranks % layout.sharding_degree:
        message = Text("expected a divisor of data x context parallel {}, found {}", ranks, layout.sharding_degree)
        yield f"{path}/sharding_degree", message
    elif layout.sharding_stage == 0 and layout.sharding_degree != 1:
        yield f"{path}/sharding_degree", Text("expected 1 (sharding stage 0), found {}", layout.sharding_degree)
    yield from _problems(document, *UNEVEN)
