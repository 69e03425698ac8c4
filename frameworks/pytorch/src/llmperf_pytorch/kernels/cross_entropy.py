"""Output projection and cross entropy as one operation, which never holds all logits: a part of the tokens at a time.

The gradients are computed in the forward pass, as in Liger (Hsu et al. 2024, arXiv 2410.10989): the backward pass only
scales them. Made of torch's operations, so it runs on every device, and where ranks share the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from llmperf_torchkit.losses import record_token_losses, recording
from llmperf_torchkit.precision import compute_dtype, without_autocast
from torch import distributed

IGNORED = -100
"""Label of a token that is left out of the mean."""
LOGIT_BYTES = {"cpu": 2**24}
"""Float32 logits of one part by kind of device: on a CPU they stay in its cache."""
LARGEST_PART = 2**28
"""The same on accelerators: enough rows to keep matrix products fast."""
FP16_SCALE = 2.0**-4
"""Scale of the weight's gradient in fp16 while it is summed over tokens; prevents overflow."""


@dataclass(frozen=True)
class VocabularyShard:
    """The rows of the output projection that this rank has."""

    rank: int
    """Rank of this process among those that share the vocabulary; each has the same number of rows, in order."""
    group: Any
    """torch's process group of those."""


def linear_cross_entropy(
    states: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, shard: VocabularyShard | None = None
) -> torch.Tensor:
    """Mean cross entropy in nats per token, float32, of the logits `states @ weight.T`.

    states: [..., width]; weight: [vocab_size, width], or this rank's rows; labels: ids of the whole vocabulary, of the
    shape [...], or -100 for tokens to leave out. With a shard the gradient of the states is this rank's part of a sum
    over the ranks.
    """
    dtype = compute_dtype(states)
    flat, projection = states.flatten(0, -2).to(dtype), weight.to(dtype)
    token_losses: list[torch.Tensor] | None = [] if recording() else None
    with without_autocast(states):
        loss: torch.Tensor = _LinearCrossEntropy.apply(flat, projection, labels.flatten(), shard, token_losses)
    if token_losses:
        record_token_losses(torch.cat(token_losses), labels)
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        weight: torch.Tensor,
        labels: torch.Tensor,
        shard: VocabularyShard | None,
        token_losses: list[torch.Tensor] | None,
    ) -> torch.Tensor:
        of_states, of_weight = ctx.needs_input_grad[:2]
        learnt = labels != IGNORED
        count = learnt.sum()
        scale = FP16_SCALE if states.dtype is torch.float16 else 1.0
        kept = learnt.unsqueeze(-1).to(states.dtype)
        state_gradient = torch.empty_like(states) if of_states else None
        weight_gradient = None
        total = torch.zeros((), dtype=torch.float32, device=states.device)
        # equal runs of tokens whose float32 logits have about the size that suits the device
        tokens, most = states.shape[0], LOGIT_BYTES.get(states.device.type, LARGEST_PART)
        each = -(-tokens // max(1, -(-tokens * weight.shape[0] * 4 // most)))
        parts = [slice(first, min(first + each, tokens)) for first in range(0, tokens, each)]
        for part in parts:
            rows = states[part]
            logits = rows @ weight.t()
            losses, gradient = _losses(logits, labels[part].masked_fill(~learnt[part], 0), shard)
            total += losses.masked_fill_(~learnt[part], 0.0).sum()
            if token_losses is not None:
                token_losses.append(losses)
            if not (of_states or of_weight):
                continue
            gradient = gradient if gradient.dtype is logits.dtype else logits.copy_(gradient)
            if state_gradient is not None:
                torch.mm(gradient, weight, out=state_gradient[part]).mul_(kept[part])
            if of_weight:
                weight_gradient = _added(weight_gradient, gradient, rows * (kept[part] * scale), several=len(parts) > 1)
        ctx.scale = scale
        ctx.save_for_backward(
            state_gradient, None if weight_gradient is None else weight_gradient.to(weight.dtype), count
        )
        return total / count

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None, None]:
        of_states, of_weight, count = ctx.saved_tensors
        share = gradient / count
        return (
            None if of_states is None else of_states * share,
            None if of_weight is None else of_weight * (share / ctx.scale),
            None,
            None,
            None,
        )


def _losses(
    logits: torch.Tensor, labels: torch.Tensor, shard: VocabularyShard | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss of each token, and its gradient by the logits: softmax minus one at the label, in float32."""
    if shard is None:
        logs = torch.log_softmax(logits, -1, dtype=torch.float32)
        here = labels.unsqueeze(-1)
        losses = -logs.gather(-1, here).squeeze(-1)
        return losses, logs.exp_().scatter_add_(-1, here, torch.full_like(losses, -1.0).unsqueeze(-1))
    largest = logits.amax(-1).float()
    distributed.all_reduce(largest, op=distributed.ReduceOp.MAX, group=shard.group)
    shifted = logits.float().sub_(largest.unsqueeze(-1))
    here = labels - shard.rank * logits.shape[-1]
    absent = (here < 0) | (here >= logits.shape[-1])
    here = here.masked_fill_(absent, 0).unsqueeze(-1)
    wanted = shifted.gather(-1, here).squeeze(-1).masked_fill_(absent, 0.0)
    exponentials = shifted.exp_()
    sums = torch.stack([exponentials.sum(-1), wanted])
    distributed.all_reduce(sums, group=shard.group)
    total, wanted = sums.unbind()
    softmax = exponentials.div_(total.unsqueeze(-1))
    return total.log() - wanted, softmax.scatter_add_(-1, here, absent.float().sub_(1.0).unsqueeze(-1))


def _added(total: torch.Tensor | None, gradient: torch.Tensor, rows: torch.Tensor, *, several: bool) -> torch.Tensor:
    """The weight's gradient with that of further tokens, in float32 where it is a sum of several products."""
    if total is not None and gradient.dtype is torch.float32:
        return total.addmm_(gradient.t(), rows)
    product = gradient.t() @ rows
    if total is not None:
        return total.add_(product)
    return product.float() if several else product
