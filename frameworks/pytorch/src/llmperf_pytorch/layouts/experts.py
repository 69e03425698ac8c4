"""Expert parallelism: neighbouring data-parallel ranks share the experts of each mixture, and send tokens to them.

Lepikhin et al. 2020 (GShard, arXiv 2006.16668), section 3.2. The host waits for the numbers of tokens, which sizes of
messages depend on. Experts are held whole by the rank that has them: only other parameters are sharded besides.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed
from torch._guards import detect_fake_mode

from llmperf_pytorch.decoder.mixture import Experts, Reordered
from llmperf_pytorch.layouts.sharding import Shard, expert_mesh

if TYPE_CHECKING:
    from llmperf.types import Layout
    from torch.distributed import ProcessGroup


class ExpertRanks:
    """The ranks that share experts, and those that hold the same ones."""

    def __init__(self, layout: Layout, device_type: str) -> None:
        self.count = layout.expert_parallel
        self._data_parallel = layout.data_parallel
        mesh = expert_mesh(layout, device_type)
        self.group: ProcessGroup = mesh["experts"].get_group()
        self.place: int = mesh["experts"].get_local_rank()
        self._replicas: ProcessGroup = mesh["replicate"].get_group()

    def divide(self, model: torch.nn.Module) -> None:
        """Leave this rank's experts of a model without memory; each part is then one of `DividedExperts`."""
        for module in model.modules():
            if type(module) is Experts:
                module.__class__ = DividedExperts
                module.keep(self)

    def parameters(self, model: torch.nn.Module) -> set[torch.nn.Parameter]:
        """Those of this rank's experts."""
        return {
            parameter
            for module in model.modules()
            if isinstance(module, DividedExperts)
            for parameter in module.parameters()
        }

    def reduce(self, gradient: torch.Tensor) -> None:
        """A gradient by the tokens of the ranks that share experts to the mean over all data-parallel ranks."""
        gradient /= self._data_parallel
        torch.distributed.all_reduce(gradient, group=self._replicas)


class ExpertShard(Shard):
    """One projection of this rank's experts. Its gradient is reduced here, once in each step."""

    def __init__(self, name: str, parameter: torch.nn.Parameter, ranks: ExpertRanks) -> None:
        super().__init__(name, parameter)
        self._ranks = ranks

    def take_gradient(self) -> None:
        """Give `local` the mean over all data-parallel ranks."""
        super().take_gradient()
        if self.local.grad is not None:
            self._ranks.reduce(self.local.grad)

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        """The ranks that hold other experts."""
        return (self._ranks.group,)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the projection of all experts."""
        experts, *rest = self.parameter.shape
        return (experts * self._ranks.count, *rest)

    def ranges(self) -> list[range]:
        """Ranges of indexes, by dimension of the whole parameter, that this rank holds."""
        experts, *rest = self.parameter.shape
        first = self._ranks.place * experts
        return [range(first, first + experts), *map(range, rest)]


class DividedExperts(Experts):
    """This rank's experts, which compute the rows that all ranks send them."""

    _ranks: ExpertRanks

    def keep(self, ranks: ExpertRanks) -> None:
        """Keep as many experts as each rank has."""
        self._ranks = ranks
        for name, parameter in list(self.named_parameters()):
            kept = parameter.shape[0] // ranks.count
            self.register_parameter(name, torch.nn.Parameter(torch.empty_like(parameter[:kept])))

    def forward(self, rows: torch.Tensor, experts: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Rows [rows, width] of this rank in the order of their experts, of which each has `counts` [experts of all
        ranks], to the same shape."""
        group, ranks = self._ranks.group, self._ranks.count
        with torch.no_grad():
            sent = counts.view(ranks, -1)
            received = torch.empty_like(sent)
            torch.distributed.all_to_all_single(received, sent, group=group)
            sizes = _read_sizes(sent.sum(1), received.sum(1), rows)
            here = torch.arange(sent.shape[1], device=counts.device).repeat(ranks)
            owners = here.repeat_interleave(received.flatten(), output_size=sum(sizes[1]))
            order = owners.argsort(stable=True)
            back = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
        arrived = _Exchanged.apply(rows, sizes[0], sizes[1], group)
        results = super().forward(Reordered.apply(arrived, order, back), owners[order], received.sum(0))
        returned: torch.Tensor = _Exchanged.apply(Reordered.apply(results, back, order), sizes[1], sizes[0], group)
        return returned


def _read_sizes(sent: torch.Tensor, received: torch.Tensor, rows: torch.Tensor) -> list[list[int]]:
    """Rows to each rank and from each, for which the host waits; equal ones if the rows have no data, in a trace."""
    sizes: list[list[int]] = torch.stack([sent, received]).cpu().tolist()
    if detect_fake_mode(rows) is None:
        return sizes
    ranks = len(sizes[0])
    ends = [rows.shape[0] * place // ranks for place in range(ranks + 1)]
    return [[last - first for first, last in pairwise(ends)]] * 2


class _Exchanged(torch.autograd.Function):
    """Rows to the ranks that they are for, in order, and their gradients back."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, sent: list[int], received: list[int], group: Any) -> torch.Tensor:
        ctx.sizes, ctx.group = (sent, received), group
        return _exchange(rows, sent, received, group)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        sent, received = ctx.sizes
        return _exchange(gradient, received, sent, ctx.group), None, None, None


def _exchange(rows: torch.Tensor, sent: list[int], received: list[int], group: Any) -> torch.Tensor:
    arrived = rows.new_empty(sum(received), rows.shape[1])
    torch.distributed.all_to_all_single(arrived, rows.contiguous(), received, sent, group=group)
    return arrived
