"""What a shared model means for the plan: which layouts run, and what they hold; imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf import parallelism_problems
from llmperf.types import Problem

from llmperf_pytorch.limits import RECOMPUTE_SETTINGS

if TYPE_CHECKING:
    from llmperf.types import Layout, RunSpec


OPTIONS = {"prefetch": (0, 1, 2, 3)}
"""`framework.prefetch`: for how many blocks ahead parameters are gathered while one computes."""
SETTINGS = ("accumulation_dtype", *RECOMPUTE_SETTINGS)
"""Optional settings that the framework supports."""


def shares_model(layout: Layout) -> bool:
    """Whether a rank holds only a part of the model or of its states."""
    sharded = bool(layout.sharding_stage) and layout.sharding_degree > 1
    return sharded or layout.tensor_parallel > 1


def update_bytes_per_parameter(spec: RunSpec, layout: Layout) -> float:
    """What FSDP2 holds at most beside ZeRO's states, bytes for each parameter of a rank's shard.

    Gathered parameters are a copy: the float32 shards stay beside them at stages 0 to 2. In 16 bits ZeRO's count has
    these shards as master weights. Reduced gradients are float32, which ZeRO counts with 2 bytes in 16 bits. At stage 1
    the reduced gradients of a block take the place of the larger ones that the rank has added up.
    """
    if not shares_model(layout):
        return 0.0
    half = spec.contract.precision in ("bf16", "fp16")
    stage = layout.sharding_stage
    return {0: 2.0, 1: 0.0, 2: 2.0, 3: 0.0}[stage] if half else {0: 4.0, 1: 4.0, 2: 4.0, 3: 0.0}[stage]


def layout_problems(spec: RunSpec, layout: Layout) -> Iterator[Problem]:
    """Every reason why ranks cannot share the model like this."""
    yield from parallelism_problems("pytorch", spec, ("tensor_parallel", "sequence_parallel"))
    if layout.tensor_parallel > 1 and spec.model.family != "llama":
        message = f"pytorch divides models of family llama only, found {spec.model.family!r}; the nearest is 1"
        yield Problem(code="pytorch.tensor_parallel", where="tuning.tensor_parallel", message=message)
    if spec.tuning.sequence_parallel and spec.contract.seq_len % layout.tensor_parallel:
        message = f"tensor parallel {layout.tensor_parallel} does not divide seq_len {spec.contract.seq_len}"
        message = f"{message}; nearest: --set sequence_parallel=false"
        yield Problem(code="pytorch.sequence_parallel", where="tuning.sequence_parallel", message=message)
    for name in ("vocab_size", "intermediate_size"):
        size, ways = getattr(spec.model, name), layout.tensor_parallel
        if size % ways:
            nearest = max(part for part in range(1, ways + 1) if size % part == 0)
            what = f"{spec.model.name} has {name} {size}, which tensor parallel {ways} does not divide"
            message = f"{what}; the nearest that does is {nearest}"
            yield Problem(code="pytorch.tensor_parallel", where="tuning.tensor_parallel", message=message)
    depth = spec.framework.get("prefetch", 1)
    if "prefetch" in spec.framework and not shares_model(layout):
        message = f"only sharded blocks are gathered ahead: expected no such option at sharding stage 0, found {depth}"
        yield Problem(code="pytorch.prefetch", where="framework.prefetch", message=message)
