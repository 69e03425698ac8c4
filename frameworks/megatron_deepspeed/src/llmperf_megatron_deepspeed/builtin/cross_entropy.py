"""Cross entropy of logits that are shared out by the vocabulary: no rank ever has them all."""

from __future__ import annotations

from typing import Any

import torch
from llmperf_pytorch.kernels.cross_entropy import VocabularyShard, linear_cross_entropy
from llmperf_pytorch.losses import mean_cross_entropy, record_token_losses
from torch import distributed

from llmperf_megatron_deepspeed.builtin.tensor_parallel import TensorParallel


def sharded_cross_entropy(logits: torch.Tensor, labels: torch.Tensor, ranks: TensorParallel) -> torch.Tensor:
    """Mean cross entropy in nats per token, in float32, the same on every rank.

    logits: [batch, seq_len, vocab_size / ranks], this rank's share; labels: [batch, seq_len], ids of the whole
    vocabulary.
    """
    if ranks.size == 1:
        return mean_cross_entropy(logits, labels)
    token_losses: torch.Tensor = _Sharded.apply(logits, labels, ranks)
    record_token_losses(token_losses, labels)
    return token_losses.mean()


def projected_cross_entropy(
    states: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, ranks: TensorParallel
) -> torch.Tensor:
    """The same of states [batch, seq_len, width] and this rank's rows of the output projection, in parts."""
    shard = None if ranks.size == 1 else VocabularyShard(ranks.rank, ranks.group)
    return linear_cross_entropy(states, weight, labels, shard)


class _Sharded(torch.autograd.Function):
    """Loss of each token: log of the sum of exponentials over all ranks, minus the label's logit."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor, ranks: TensorParallel) -> torch.Tensor:
        largest = logits.amax(-1).float()
        distributed.all_reduce(largest, op=distributed.ReduceOp.MAX, group=ranks.group)
        shifted = logits.float() - largest.unsqueeze(-1)
        here = labels - ranks.rank * logits.shape[-1]
        absent = (here < 0) | (here >= logits.shape[-1])
        here = here.masked_fill(absent, 0)
        wanted = shifted.gather(-1, here.unsqueeze(-1)).squeeze(-1).masked_fill(absent, 0.0)
        exponentials = shifted.exp_()
        both = torch.stack([exponentials.sum(-1), wanted])
        distributed.all_reduce(both, group=ranks.group)
        total, wanted = both.unbind()
        ctx.save_for_backward(exponentials.div_(total.unsqueeze(-1)), here, absent)
        ctx.dtype = logits.dtype
        return total.log() - wanted

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Softmax minus one at the label, times the gradient of the token's loss."""
        softmax, here, absent = ctx.saved_tensors
        share = softmax * gradient.unsqueeze(-1)
        at_label = gradient.masked_fill(absent, 0.0).unsqueeze(-1)
        share.scatter_add_(-1, here.unsqueeze(-1), -at_label)
        return share.to(ctx.dtype), None, None
