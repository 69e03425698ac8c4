"""Ranks that share each layer, the operators between them, and the cross entropy of logits that no rank has all of.

Shoeybi et al. 2019, Megatron-LM, section 3: states are whole on every rank between layers. `copied` enters a part that
is shared out: identity forward, sum of gradients backward. `summed` leaves it: sum forward, identity backward.

Korthikanti et al. 2022, Reducing Activation Recomputation, section 4.2.2: with sequence parallelism each rank has the
states of some positions. They are gathered where a shared part is entered, and what leaves it is summed and scattered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed
from llmperf_pytorch.kernels.cross_entropy import VocabularyShard, linear_cross_entropy
from llmperf_torchkit.losses import mean_cross_entropy, record_token_losses
from torch import distributed
from torch.nn import functional

Finish = Callable[[], torch.Tensor]
"""Waits for a communication, and returns its result."""


@dataclass(frozen=True)
class TensorParallel:
    """The ranks that share layers with this one."""

    rank: int = 0
    """Rank of this process in the group."""
    size: int = 1
    """How many they are."""
    group: Any = None
    """torch's process group; None where there is one rank."""
    sequence: bool = False
    """States between layers are divided by position."""
    overlap: bool = False
    """Gradients of weights are computed while gradients of states are communicated."""

    def projected(self, states: torch.Tensor, *projections: Any) -> tuple[torch.Tensor, ...]:
        """`products` with the weights of projections, their biases added."""
        outputs = self.products(states, *(projection.weight for projection in projections))
        pairs = zip(outputs, (projection.bias for projection in projections), strict=True)
        return tuple(output if bias is None else output + bias for output, bias in pairs)

    def products(self, states: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """`states` times weights whose outputs are shared out: [batch, seq_len, width] to [..., outputs / ranks] each.

        States are those of this rank's positions if the sequence is divided; the products are of all positions.
        """
        if self.size > 1 and (self.sequence or self.overlap):
            outputs: tuple[torch.Tensor, ...] = _Products.apply(states, self, *weights)
            return outputs
        whole = self.shared(states)
        return tuple(functional.linear(whole, weight) for weight in weights)

    def shared(self, states: torch.Tensor) -> torch.Tensor:
        """All positions of `states`, for a part that is shared out: its gradient is the sum over the ranks."""
        if self.size == 1:
            return states
        return _Gathered.apply(states, self) if self.sequence else _Copied.apply(states, self.group)

    def summed(self, part: torch.Tensor) -> torch.Tensor:
        """The sum of the ranks' parts, on every rank, or of this rank's positions if the sequence is divided."""
        if self.size == 1:
            return part
        return _Scattered.apply(part, self) if self.sequence else _Summed.apply(part, self.group)

    def gather(self, states: torch.Tensor) -> Finish:
        """Begin to gather all positions [batch, seq_len, width] from each rank's [batch, seq_len / ranks, width]."""
        batch, positions, width = states.shape
        parts = states.new_empty(self.size * batch, positions, width)
        work = torch.distributed.all_gather_into_tensor(parts, states.contiguous(), group=self.group, async_op=True)
        by_rank = parts.view(self.size, batch, positions, width)
        return self._finish(work, lambda: by_rank.transpose(0, 1).reshape(batch, self.size * positions, width))

    def scatter(self, states: torch.Tensor) -> Finish:
        """Begin to sum [batch, seq_len, width] over the ranks, for this rank's [batch, seq_len / ranks, width]."""
        batch, positions, width = states.shape
        by_rank = states.view(batch, self.size, positions // self.size, width).transpose(0, 1)
        parts = by_rank.reshape(self.size * batch, positions // self.size, width).contiguous()
        own = torch.empty_like(parts[:batch])
        work = torch.distributed.reduce_scatter_tensor(own, parts, group=self.group, async_op=True)
        return self._finish(work, lambda: own)

    def sum(self, states: torch.Tensor) -> Finish:
        """Begin to sum contiguous states over the ranks, in place."""
        work = torch.distributed.all_reduce(states, group=self.group, async_op=True)
        return self._finish(work, lambda: states)

    def _finish(self, work: torch.distributed.Work, result: Finish) -> Finish:
        def finish() -> torch.Tensor:
            work.wait()
            return result()

        if self.overlap:
            return finish
        finished = finish()
        return lambda: finished


class _Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, whole: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        gradient = gradient.contiguous()
        torch.distributed.all_reduce(gradient, group=ctx.group)
        return gradient, None


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, ranks: TensorParallel) -> torch.Tensor:
        ctx.ranks = ranks
        return ranks.gather(states)()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.ranks.scatter(gradient)(), None


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.mark_dirty(part)  # summed in place: the parts are of no further use
        torch.distributed.all_reduce(part, group=group)
        return part

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


class _Scattered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: torch.Tensor, ranks: TensorParallel) -> torch.Tensor:
        ctx.ranks = ranks
        return ranks.scatter(part)()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.ranks.gather(gradient)(), None


class _Products(torch.autograd.Function):
    """Products of one input with several weights; of a divided sequence only this rank's positions are kept."""

    @staticmethod
    def forward(
        ctx: Any, states: torch.Tensor, ranks: TensorParallel, *weights: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.ranks = ranks
        ctx.save_for_backward(states, *weights)
        whole = ranks.gather(states)() if ranks.sequence else states
        return tuple(functional.linear(whole, weight) for weight in weights)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The states are gathered during the products for their gradient, which is summed during those for weights."""
        ranks: TensorParallel = ctx.ranks
        states, *weights = ctx.saved_tensors
        gathering = ranks.gather(states) if ranks.sequence else None
        rows = [gradient.flatten(0, -2) for gradient in gradients]
        total = rows[0] @ weights[0]
        for row, weight in zip(rows[1:], weights[1:], strict=True):
            total.addmm_(row, weight)
        total = total.view(*gradients[0].shape[:-1], -1)
        reducing = ranks.scatter(total) if ranks.sequence else ranks.sum(total)
        whole = (states if gathering is None else gathering()).flatten(0, -2)
        of_weights = [row.t() @ whole for row in rows]
        return reducing(), None, *of_weights


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
