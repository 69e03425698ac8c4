"""Root mean square norms of hidden states, and of the queries and keys of each head."""

from __future__ import annotations

import paddle
from paddle import nn

from llmperf_paddle.design import Design


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
