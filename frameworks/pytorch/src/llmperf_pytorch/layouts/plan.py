"""What a shared model means for the plan: which layouts run, and what they hold; imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

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
    return bool(layout.sharding_stage) and layout.sharding_degree > 1


def update_bytes_per_parameter(spec: RunSpec, layout: Layout) -> float:
    """What FSDP2 holds at most beside ZeRO's states, bytes for each parameter of a rank's shard.

    Gathered parameters are a copy: the float32 shards stay beside them at stages 1 and 2. In 16 bits ZeRO's count has
    these shards as master weights. Reduced gradients are float32, which ZeRO counts with 2 bytes in 16 bits. At stage 1
    the reduced gradients of a block take the place of the larger ones that the rank has added up.
    """
    if not shares_model(layout):
        return 0.0
    half = spec.contract.precision in ("bf16", "fp16")
    return {1: 0.0 if half else 4.0, 2: 2.0 if half else 4.0}.get(layout.sharding_stage, 0.0)


def layout_problems(spec: RunSpec, layout: Layout) -> Iterator[Problem]:
    """Every reason why a shared model cannot be trained."""
    depth = spec.framework.get("prefetch", 1)
    if "prefetch" in spec.framework and not shares_model(layout):
        message = f"only sharded blocks are gathered ahead: expected no such option at sharding stage 0, found {depth}"
        yield Problem(code="pytorch.prefetch", where="framework.prefetch", message=message)
