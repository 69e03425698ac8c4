"""The arithmetic of parallel layouts: world = tensor x context x data x pipeline parallel = nodes x devices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal, get_args

from llmperf.types.layout import Layout, RankDimension
from llmperf.types.models import Model
from llmperf.types.plan_checks import Problem
from llmperf.types.spec import Contract, RunSpec, Tuning
from llmperf.types.texts import Text

Degree = Literal["tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel", "sequence_parallel"]
DEGREES: tuple[Degree, ...] = get_args(Degree)
"""The settings by which ranks share a model, apart from data parallelism and sharding."""


def standard_layout(spec: RunSpec) -> Layout:
    """The layout that a spec's tuning gives. If the ranks do not divide, the core reports it beside your problems."""
    tuning = spec.tuning
    return Layout(
        nodes=tuning.nodes,
        devices_per_node=tuning.devices,
        tensor_parallel=tuning.tensor_parallel,
        pipeline_parallel=tuning.pipeline_parallel,
        data_parallel=data_parallel_of(tuning),
        context_parallel=tuning.context_parallel,
        expert_parallel=tuning.expert_parallel,
        sequence_parallel=tuning.sequence_parallel,
        sharding_stage=tuning.sharding_stage,
        sharding_degree=sharding_degree_of(tuning),
    )


def data_parallel_of(tuning: Tuning) -> int:
    """Groups of ranks that see different sequences: world / (tensor x pipeline x context parallel), at least 1."""
    return max(1, tuning.nodes * tuning.devices // _ranks_of_one_sequence(tuning))


def _ranks_of_one_sequence(tuning: Tuning) -> int:
    return tuning.tensor_parallel * tuning.pipeline_parallel * tuning.context_parallel


def sharding_degree_of(tuning: Tuning) -> int:
    """Ranks that share one copy of the sharded state: by default all data- and context-parallel ranks."""
    return tuning.sharding_degree or (
        data_parallel_of(tuning) * tuning.context_parallel if tuning.sharding_stage else 1
    )


def layout_text(layout: Layout) -> str:
    """The degrees in short, such as `TP4 x PP1 x DP2`; degrees of 1 that are rarely used are left out."""
    parts = [f"TP{layout.tensor_parallel}", f"PP{layout.pipeline_parallel}"]
    if layout.context_parallel > 1:
        parts.append(f"CP{layout.context_parallel}")
    beside = [f"EP{layout.expert_parallel}"] * (layout.expert_parallel > 1) + ["SP"] * layout.sequence_parallel
    return ", ".join([" x ".join([*parts, f"DP{layout.data_parallel}"]), *beside])


def layout_problems(contract: Contract, tuning: Tuning, model: Model) -> list[Problem]:
    """Every reason why the degrees do not divide the ranks, the model or the sequence."""
    world, each = tuning.nodes * tuning.devices, _ranks_of_one_sequence(tuning)
    problems = []
    if world % each:
        named = [("tensor parallel", tuning.tensor_parallel), ("pipeline parallel", tuning.pipeline_parallel)]
        named += [("context parallel", tuning.context_parallel)] * (tuning.context_parallel > 1)
        below = max(world // each, 1) * each
        nearest = min((below, below + each), key=lambda size: (abs(size - world), size))
        product = Text.joined(" x ", (Text(f"{name} {{}}", degree) for name, degree in named))
        problems.append(
            Problem(
                code="ranks_not_divisible",
                where="tuning.tensor_parallel",
                message=Text(
                    "{} = {} does not divide {} x {} = {} ranks; the nearest number of ranks that works is {}",
                    *(product, each, tuning.nodes, tuning.devices, world, nearest),
                ),
            )
        )
    else:  # context-parallel ranks share what data-parallel ranks do
        data, context = world // each, tuning.context_parallel
        what = Text("data parallel {}", data)
        if context > 1:
            what = Text("data parallel {} x context parallel {} = {}", data, context, data * context)
        for name, degree in (
            ("sharding_degree", tuning.sharding_degree or 1),
            ("expert_parallel", tuning.expert_parallel),
        ):
            if data * context % degree:
                values = what, degree, nearest_divisor(data * context, degree)
                message = Text("expected a divisor of {}, found {}; the nearest is {}", *values)
                if name == "sharding_degree":
                    problem = Problem(code="sharding_not_divisible", where=f"tuning.{name}", message=message)
                else:
                    problem = Problem(code="experts_not_divisible", where=f"tuning.{name}", message=message)
                problems.append(problem)
    if tuning.sequence_parallel and tuning.tensor_parallel == 1:
        message = Text(
            "sequence parallelism splits work among tensor-parallel ranks: expected tensor parallel of 2 or more,"
            " found 1; nearest: --set sequence_parallel=false"
        )
        problems.append(Problem(code="sequence_parallel_alone", where="tuning.sequence_parallel", message=message))
    return [*problems, *_model_problems(contract, tuning, model)]


def _model_problems(contract: Contract, tuning: Tuning, model: Model) -> Iterator[Problem]:
    experts: list[tuple[Degree, str, str, int]] = []
    if model.mixture is not None:
        experts.append(("expert_parallel", model.name, Text("experts"), model.mixture.experts))
    elif tuning.expert_parallel > 1:
        message = Text("{} has no experts: expected 1, found {}; the nearest is 1", model.name, tuning.expert_parallel)
        yield Problem(code="experts_not_divisible", where="tuning.expert_parallel", message=message)
    divided: tuple[tuple[Degree, str, str, int], ...] = (
        ("tensor_parallel", model.name, Text("attention heads"), model.attention_heads),
        ("tensor_parallel", model.name, Text("key/value heads"), model.kv_heads),
        ("pipeline_parallel", model.name, Text("layers"), model.layers),
        ("context_parallel", Text("a sequence"), Text("tokens"), contract.seq_len),
        *experts,
    )
    for name, owner, what, total in divided:
        degree = getattr(tuning, name)
        if total is None or not total % degree:
            continue
        message = Text(
            "{} has {} {}, which {} does not divide; the nearest that does is {}",
            *(owner, total, what, Text(f"{name.replace('_', ' ')} {{}}", degree), nearest_divisor(total, degree)),
        )
        if name == "context_parallel":
            yield Problem(code="sequence_not_divisible", where=f"tuning.{name}", message=message)
        else:
            yield Problem(code="model_not_divisible", where=f"tuning.{name}", message=message)


def parallelism_problems(framework: str, spec: RunSpec, supported: Collection[Degree] = ()) -> Iterator[Problem]:
    """Problems for each degree of parallelism, except of data, that is asked for and not in `supported`."""
    for name in DEGREES:
        asked = getattr(spec.tuning, name)
        if name in supported or not (asked is True or asked > 1):
            continue
        kinds = ["data", *(other.removesuffix("_parallel") for other in DEGREES if other in supported)]
        nearest = "false" if name == "sequence_parallel" else "1"
        message = f"{framework} is {' and '.join(kinds)} parallel only: expected {nearest}, found {str(asked).lower()}"
        message = f"{message}; the nearest is {nearest}"
        yield Problem(code=f"{framework}.{name}", where=f"tuning.{name}", message=message)


def nearest_divisor(total: int, wanted: int) -> int:
    """The divisor of `total` that is nearest to `wanted`, the smaller of two."""
    divisors = (size for size in range(1, min(total, 2 * wanted) + 1) if total % size == 0)  # 1 is never farther away
    return min(divisors, key=lambda size: (abs(size - wanted), size))


ABBREVIATIONS: Mapping[RankDimension, str] = {"tensor": "TP", "context": "CP", "data": "DP", "pipeline": "PP"}


def range_text(first: int, last: int) -> str:
    """Numbers as text, such as `0-7`, or `3` for one number."""
    return str(first) if first == last else f"{first}-{last}"


def coordinates_text(coordinates: Mapping[RankDimension, tuple[int, int]]) -> str:
    """Coordinates of the ranks of a node, such as `TP 0-7, DP 3`; empty for a single rank."""
    return ", ".join(f"{ABBREVIATIONS[name]} {range_text(*indexes)}" for name, indexes in coordinates.items())


def rank_order_text(layout: Layout) -> str:
    """Order of the ranks, such as `TP, then DP`; empty unless there are two dimensions of more than one rank."""
    used = [ABBREVIATIONS[name] for name in layout.rank_order if layout.degrees[name] > 1]
    return ", then ".join(used) if len(used) > 1 else ""
