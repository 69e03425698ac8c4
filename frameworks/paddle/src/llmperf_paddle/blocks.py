"""Design of a model, its norms, and the halves of a transformer block: attention and the gated feed-forward layer.

Rotary positions (Su et al., RoFormer, arXiv 2104.09864) rotate halves as in LLaMA checkpoints. Causal attention goes
three ways that give the same: step by step, Paddle's choice of kernel, or its flash kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import llmperf
import numpy as np
import paddle
from llmperf.types import Model, RunSpec
from paddle import nn
from paddle.nn import functional

from llmperf_paddle.layers import Layers

Attention = Callable[[paddle.Tensor, paddle.Tensor, paddle.Tensor, int | None], paddle.Tensor]
"""Queries [batch, seq_len, heads, width], keys and values (their heads may be fewer), and the tokens that a query sees,
its own included, None for all before it; to the shape of the queries."""


def sdpa_attention(query: paddle.Tensor, key: paddle.Tensor, value: paddle.Tensor, window: int | None) -> paddle.Tensor:
    """`scaled_dot_product_attention`, with a mask where there is a window."""
    key, value = _repeated(query, key, value)
    if window is None or window >= query.shape[1]:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    mask = causal_mask(query.shape[1], window).astype(query.dtype)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def flash_attention(
    query: paddle.Tensor, key: paddle.Tensor, value: paddle.Tensor, window: int | None
) -> paddle.Tensor:
    """FlashAttention-2, which takes grouped keys as they are, and no window."""
    from paddle.nn.functional.flash_attention import flash_attention as kernel

    assert window is None or window >= query.shape[1]  # planning refuses others
    return kernel(query, key, value, causal=True)[0]


def eager_attention(
    query: paddle.Tensor, key: paddle.Tensor, value: paddle.Tensor, window: int | None
) -> paddle.Tensor:
    """The same as separate operations, the softmax in float32: all scores are kept for the backward pass."""
    key, value = _repeated(query, key, value)
    query, key, value = (states.transpose([0, 2, 1, 3]) for states in (query, key, value))
    scores = paddle.matmul(query, key, transpose_y=True) / math.sqrt(query.shape[-1])
    with paddle.amp.auto_cast(enable=False):
        mask = causal_mask(scores.shape[-1], window)
        weights = functional.softmax(scores.astype("float32") + mask, axis=-1).astype(value.dtype)
    return paddle.matmul(weights, value).transpose([0, 2, 1, 3])


def causal_mask(seq_len: int, window: int | None) -> paddle.Tensor:
    """Added to scores, float32 [1, 1, seq_len, seq_len]: 0 where a query sees a key, minus infinity elsewhere."""
    hidden = paddle.full([1, 1, seq_len, seq_len], float("-inf"), dtype="float32")
    ahead = hidden.triu(1)
    return ahead if window is None else ahead + hidden.tril(-window)


def _repeated(query: paddle.Tensor, key: paddle.Tensor, value: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
    groups = query.shape[2] // key.shape[2]
    if groups == 1:
        return key, value
    return key.repeat_interleave(groups, axis=2), value.repeat_interleave(groups, axis=2)


ATTENTION: dict[str, Attention] = {
    "auto": sdpa_attention,
    "sdpa": sdpa_attention,
    "flash": flash_attention,
    "eager": eager_attention,
}
"""By `tuning.attention`."""


class Rotary:
    """Cosines and sines of a sequence, made in float32 when first used. No layer: amp must not round its tables."""

    def __init__(self, facts: Model, *, windowed: bool, fused: bool) -> None:
        self._frequencies, self._scale = llmperf.rotary_frequencies(facts, windowed)
        self._neighbours, self._fused = facts.rotated_pairs == "neighbours", fused
        self._tables: dict[tuple[int, str], tuple[paddle.Tensor, paddle.Tensor]] = {}

    def turn(self, query: paddle.Tensor, key: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Turn each pair of the first channels of [batch, seq_len, heads, width] by its position's angle.

        Where neighbours are pairs, they are put into halves first: scores do not depend on the order of channels.
        """
        turning = 2 * len(self._frequencies)
        if turning < query.shape[-1]:
            turned = self._turned(query[..., :turning], key[..., :turning])
            parts = zip(turned, (query[..., turning:], key[..., turning:]), strict=True)
            query, key = (paddle.concat([first, rest], axis=-1) for first, rest in parts)
            return query, key
        return self._turned(query, key)

    def _turned(self, query: paddle.Tensor, key: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        """All channels."""
        if self._neighbours:
            query, key = _in_halves(query), _in_halves(key)
        cosines, sines = self._of(query.shape[1], query.dtype)
        if self._fused:
            from paddle.incubate.nn.functional import fused_rotary_position_embedding

            turned = fused_rotary_position_embedding(query, key, sin=sines, cos=cosines, use_neox_rotary_style=False)
            return turned[0], turned[1]
        return _rotate(query, cosines, sines), _rotate(key, cosines, sines)

    def _of(self, seq_len: int, dtype: paddle.dtype) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Two of [1, seq_len, 1, rotated width]; both halves are the same."""
        key = (seq_len, str(dtype))
        if key not in self._tables:
            angles = np.tile(np.arange(seq_len, dtype=np.float32)[:, None] * self._frequencies, 2)
            pair = (np.cos(angles) * np.float32(self._scale), np.sin(angles) * np.float32(self._scale))
            cosines, sines = (paddle.to_tensor(table)[None, :, None].astype(dtype) for table in pair)
            self._tables[key] = cosines, sines
        return self._tables[key]


class Rotaries:
    """The rotary encodings that all blocks of a model share."""

    def __init__(self, facts: Model, *, fused: bool) -> None:
        self.full = Rotary(facts, windowed=False, fused=fused)
        """Rotation of blocks that see all earlier tokens."""
        own = Rotary(facts, windowed=True, fused=fused)
        self.windowed = self.full if facts.window_rope_theta is None else own
        """Rotation of blocks with a window."""


def _in_halves(states: paddle.Tensor) -> paddle.Tensor:
    """Channels 0, 2, 4, ... and then 1, 3, 5, ..."""
    pairs = states.reshape([*states.shape[:-1], -1, 2])
    return pairs.transpose([0, 1, 2, 4, 3]).reshape(states.shape)


def _rotate(states: paddle.Tensor, cosines: paddle.Tensor, sines: paddle.Tensor) -> paddle.Tensor:
    low, high = paddle.chunk(states, 2, axis=-1)
    return states * cosines + paddle.concat([-high, low], axis=-1) * sines


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
