"""Design of a model: its facts, its layers, the settings that its blocks depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.types import Model, RunSpec

    from llmperf_paddle.layers import Layers


@dataclass(frozen=True)
class Design:
    """Design shared by the units of one model."""

    facts: Model
    layers: Layers
    attention: str
    checkpointing: bool
    fused: tuple[str, ...]
    reentrant: bool
    """How blocks are recomputed: fleet's default, which `DataParallel` takes for a second use of each parameter."""

    @classmethod
    def of(cls, spec: RunSpec, fused_ops: tuple[str, ...], layers: Layers) -> Design:
        """From a spec and its fused operations, `auto` expanded."""
        tuning = spec.tuning
        sharded = tuning.sharding_stage > 0 and tuning.sharding_degree != 1
        replicas = tuning.tensor_parallel == tuning.pipeline_parallel == 1 and not sharded
        return cls(
            facts=spec.model,
            layers=layers,
            attention=tuning.attention,
            checkpointing=tuning.gradient_checkpointing,
            fused=fused_ops,
            reentrant=not replicas,
        )

    def window(self, index: int) -> int | None:
        """Tokens that a block sees; None: all tokens before."""
        pattern = self.facts.window_pattern or ("window",)
        return self.facts.window if pattern[index % len(pattern)] == "window" else None
