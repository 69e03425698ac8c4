"""Design of a model, its norms, and the halves of a transformer block: attention and the gated feed-forward layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import paddle
from paddle import nn
from paddle.nn import functional

from llmperf_paddle.attention import ATTENTION
from llmperf_paddle.rotary import Rotaries

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


class RMSNorm(nn.Layer):
    """Root mean square norm, computed in float32 (Zhang and Sennrich, arXiv 1910.07467)."""

    def __init__(self, design: Design, width: int | None = None) -> None:
        super().__init__()
        facts = design.facts
        self._eps, self._offset = facts.norm_eps, facts.norm_offset
        self._fused = "rms_norm" in design.fused
        ones = nn.initializer.Constant(1.0)
        self.weight = self.create_parameter([width or facts.hidden_size], default_initializer=ones)

    def forward(self, states: paddle.Tensor) -> paddle.Tensor:
        """[..., width] to the same. With an offset in float32: in 16 bits 1 + a small weight loses most digits."""
        weight = self._weight()
        with paddle.amp.auto_cast(enable=False):
            if self._offset:
                return self._normed(states.astype("float32"), weight.astype("float32") + 1.0).astype(states.dtype)
            return self._normed(states, weight.astype(states.dtype))

    def _normed(self, states: paddle.Tensor, gain: paddle.Tensor) -> paddle.Tensor:
        if self._fused:
            from paddle.incubate.nn.functional import fused_rms_norm

            return fused_rms_norm(states, gain, None, self._eps, begin_norm_axis=states.ndim - 1)[0]
        exact = states.astype("float32")
        scaled = exact * paddle.rsqrt((exact * exact).mean(-1, keepdim=True) + self._eps)
        return scaled.astype(states.dtype) * gain

    def _weight(self) -> paddle.Tensor:
        return self.weight


class HeadNorm(RMSNorm):
    """The same of each head's queries or keys [batch, seq_len, heads, width], which ranks divide among them."""

    def __init__(self, design: Design) -> None:
        super().__init__(design, design.facts.query_width)
        self._layers = design.layers

    def _weight(self) -> paddle.Tensor:
        return self._layers.of_all_ranks(self.weight)


class SelfAttention(nn.Layer):
    """Causal attention of this rank's heads, keys and values grouped where the model has fewer."""

    def __init__(self, design: Design, index: int, rotaries: Rotaries) -> None:
        super().__init__()
        facts, layers, biased = design.facts, design.layers, design.facts.attention_bias
        self._width, self._window = facts.query_width, design.window(index)
        self._rotary = rotaries.full if self._window is None else rotaries.windowed
        self._attend = ATTENTION[design.attention]
        scale_width = facts.query_scale_width or self._width
        self._stretch = math.sqrt(self._width / scale_width) if scale_width != self._width else None
        queries, keys = self._width * facts.attention_heads, self._width * facts.kv_heads
        self.q_proj = layers.column(facts.hidden_size, queries, bias="q" in biased)
        self.k_proj = layers.column(facts.hidden_size, keys, bias="k" in biased)
        self.v_proj = layers.column(facts.hidden_size, keys, bias="v" in biased)
        self.o_proj = layers.row(queries, facts.hidden_size, bias="o" in biased)
        self._normed = facts.qk_norm == "head"
        if self._normed:
            self.q_norm, self.k_norm = HeadNorm(design), HeadNorm(design)

    def forward(self, states: paddle.Tensor) -> paddle.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        batch, seq_len = states.shape[0], states.shape[1]
        query, key, value = (
            project(states).reshape([batch, seq_len, -1, self._width])
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self._normed:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key = self._rotary.turn(query, key)
        if self._stretch is not None:
            query = query * self._stretch  # kernels divide scores by the root of the head's width
        return self.o_proj(self._attend(query, key, value, self._window).reshape([batch, seq_len, -1]))


class FeedForward(nn.Layer):
    """SwiGLU or GEGLU (Shazeer, arXiv 2002.05202)."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        facts, layers, bias = design.facts, design.layers, design.facts.feed_forward_bias
        self._multiply = _gated(design)
        self.gate_proj = layers.column(facts.hidden_size, facts.intermediate_size, bias=bias)
        self.up_proj = layers.column(facts.hidden_size, facts.intermediate_size, bias=bias)
        self.down_proj = layers.row(facts.intermediate_size, facts.hidden_size, bias=bias)

    def forward(self, states: paddle.Tensor) -> paddle.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        return self.down_proj(self._multiply(self.gate_proj(states), self.up_proj(states)))


def _gated(design: Design) -> Callable[[paddle.Tensor, paddle.Tensor], paddle.Tensor]:
    if design.facts.activation == "geglu":
        return _geglu
    return _fused_swiglu() if "swiglu" in design.fused else _swiglu


def _geglu(gate: paddle.Tensor, up: paddle.Tensor) -> paddle.Tensor:
    return functional.gelu(gate, approximate=True) * up


def _swiglu(gate: paddle.Tensor, up: paddle.Tensor) -> paddle.Tensor:
    return functional.silu(gate) * up


def _fused_swiglu() -> Callable[[paddle.Tensor, paddle.Tensor], paddle.Tensor]:
    """The same as one kernel."""
    if hasattr(functional, "swiglu"):
        return functional.swiglu
    from paddle.incubate.nn.functional import swiglu  # before Paddle 3.3

    return swiglu
