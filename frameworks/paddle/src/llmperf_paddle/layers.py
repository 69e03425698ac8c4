"""The layers that tensor parallelism divides: Paddle's plain ones, or those of fleet.

Weights are made empty here: `weights.py` fills them.
"""

from __future__ import annotations

import paddle
from paddle import nn
from paddle.nn import functional

from llmperf_paddle.losses import record_logits, record_token_losses


def _blank() -> paddle.ParamAttr:
    return paddle.ParamAttr(initializer=nn.initializer.Constant(0.0))


class Layers:
    """Makes the layers of one rank, undivided; of subclasses `parts` ranks have one each of equal parts."""

    parts, part = 1, 0

    def column(self, inputs: int, outputs: int, *, bias: bool = False) -> nn.Layer:
        """A product whose outputs are divided; weight [inputs, outputs / parts]."""
        return nn.Linear(inputs, outputs, weight_attr=_blank(), bias_attr=_blank() if bias else False)

    def row(self, inputs: int, outputs: int, *, bias: bool = False) -> nn.Layer:
        """A product whose inputs are divided; weight [inputs / parts, outputs]. Every rank has the whole bias."""
        return self.column(inputs, outputs, bias=bias)

    def embedding(self, rows: int, width: int) -> nn.Layer:
        """An embedding whose rows are divided; weight [rows / parts, width]."""
        return nn.Embedding(rows, width, weight_attr=_blank())

    def of_all_ranks(self, weight: paddle.Tensor) -> paddle.Tensor:
        """A weight that every rank has whole, for use in a divided part: its gradient is the sum over the ranks."""
        return weight

    def tied_logits(self, states: paddle.Tensor, embedding: paddle.Tensor) -> paddle.Tensor:
        """This rank's logits [batch, seq_len, rows / parts] from its rows of the embedding."""
        return paddle.matmul(states, embedding, transpose_y=True)

    def mean_cross_entropy(self, logits: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
        """In nats per token, in float32: this rank's logits, labels [batch, seq_len]."""
        record_logits(logits, labels)
        flat = logits.astype("float32").reshape([-1, logits.shape[-1]])
        return functional.cross_entropy(flat, labels.reshape([-1]))


class DividedLayers(Layers):
    """Fleet's, over its model-parallel group."""

    def __init__(self, parts: int, part: int, group: paddle.distributed.collective.Group) -> None:
        self.parts, self.part, self._group = parts, part, group

    def column(self, inputs: int, outputs: int, *, bias: bool = False) -> nn.Layer:
        """`ColumnParallelLinear`, its outputs left divided."""
        from paddle.distributed.fleet.meta_parallel import ColumnParallelLinear

        return ColumnParallelLinear(inputs, outputs, weight_attr=_blank(), has_bias=bias, gather_output=False)

    def row(self, inputs: int, outputs: int, *, bias: bool = False) -> nn.Layer:
        """`RowParallelLinear`, from divided inputs."""
        from paddle.distributed.fleet.meta_parallel import RowParallelLinear

        return RowParallelLinear(inputs, outputs, weight_attr=_blank(), has_bias=bias, input_is_parallel=True)

    def embedding(self, rows: int, width: int) -> nn.Layer:
        """`VocabParallelEmbedding`."""
        from paddle.distributed.fleet.meta_parallel import VocabParallelEmbedding

        return VocabParallelEmbedding(rows, width, weight_attr=_blank())

    def of_all_ranks(self, weight: paddle.Tensor) -> paddle.Tensor:
        """Fleet's identity, whose backward pass sums over the group."""
        from paddle.distributed.fleet.layers.mpu import mp_ops

        return mp_ops._c_identity(weight, group=self._group)

    def tied_logits(self, states: paddle.Tensor, embedding: paddle.Tensor) -> paddle.Tensor:
        """The product with these rows; the gradient of `states` is summed over the group."""
        from paddle.distributed.fleet.layers.mpu import mp_ops

        return paddle.matmul(mp_ops._c_identity(states, group=self._group), embedding, transpose_y=True)

    def mean_cross_entropy(self, logits: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
        """`ParallelCrossEntropy` over all tokens."""
        from paddle.distributed.fleet.meta_parallel import ParallelCrossEntropy

        token_losses = ParallelCrossEntropy()(logits.astype("float32"), labels.unsqueeze(-1))
        record_token_losses(token_losses, labels)
        return token_losses.mean()
