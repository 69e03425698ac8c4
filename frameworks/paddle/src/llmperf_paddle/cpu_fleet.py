"""Replacements for what fleet's tensor-parallel layers and sharding stages 2 and 3 lack on a CPU.

Operations of tensor parallelism have no CPU kernel: here they are made of collectives. Sharding stages 2 and 3 ask for
a GPU by name, and free tensors that on a CPU are the parameters themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import paddle
import paddle.distributed as dist
from paddle import _C_ops
from paddle.autograd import PyLayer
from paddle.base import core


def replace_operations() -> None:
    """Make the operations of tensor parallelism, which have no CPU kernel, of collectives."""
    _C_ops.c_identity = lambda tensor, *_: paddle.assign(tensor)
    _C_ops.c_split = lambda tensor, rank, parts, *_: paddle.split(tensor, parts, -1)[rank].clone()
    _C_ops.c_concat = _concatenate
    _C_ops.c_softmax_with_cross_entropy = DividedCrossEntropy.apply


def _concatenate(tensor: Any, rank: int, parts: int, ring: int, *_: object) -> Any:
    gathered = [paddle.empty_like(tensor) for _ in range(parts)]
    dist.all_gather(gathered, tensor.contiguous(), group=_group_of(ring))
    return paddle.concat(gathered, -1)


def _group_of(ring: int) -> Any:
    return dist.collective._get_group_map()[ring]


class DividedCrossEntropy(PyLayer):
    """Softmax and cross entropy of logits whose vocabulary is divided (Megatron-LM, arXiv 1909.08053, section 3)."""

    @staticmethod
    def forward(ctx: Any, logits: Any, labels: Any, ignored: int, ring: int, rank: int, parts: int) -> Any:
        """Softmax of this part, and losses [..., 1]."""
        group, rows = _group_of(ring), logits.shape[-1]
        greatest = logits.max(-1, keepdim=True)
        dist.all_reduce(greatest, op=dist.ReduceOp.MAX, group=group)
        powers = paddle.exp(logits - greatest)
        sums = powers.sum(-1, keepdim=True)
        dist.all_reduce(sums, group=group)
        own = (labels if labels.ndim == logits.ndim else labels.unsqueeze(-1)) - rank * rows
        here = ((own >= 0) & (own < rows)).astype(logits.dtype)
        own = paddle.clip(own, 0, rows - 1)
        target = paddle.take_along_axis(logits, own, -1, broadcast=False) * here
        dist.all_reduce(target, group=group)
        softmax, losses = powers / sums, paddle.log(sums) + greatest - target
        counted = (labels != ignored).reshape(losses.shape).astype(logits.dtype)
        hit = paddle.nn.functional.one_hot(own.squeeze(-1), rows) * here
        ctx.save_for_backward(softmax - hit, counted)
        return softmax, losses * counted

    @staticmethod
    def backward(ctx: Any, _: Any, upstream: Any) -> Any:
        """The gradient of this part's logits; labels have none."""
        difference, counted = ctx.saved_tensor()
        return difference * (upstream * counted), None


def replace_device_checks() -> None:
    """Answer the questions of pipelines and sharding that only a GPU can answer."""
    import paddle.distributed.fleet.utils.tensor_fusion_helper as fusion

    dist.ParallelEnv._device_id = 0  # a pipeline asks for the number of its GPU
    fusion.alignment["cpu"] = 256
    fusion.__dict__["__current_device_type__"] = "cpu"
    fusion._share_tensor_ipc_meta = lambda tensor: None


def group_sharded(model: Any, optimizer: Any, level: str, *, group: Any, dp_group: Any, segment_size: int) -> Any:
    """`paddle.distributed.sharding.group_sharded_parallel` for a CPU; returns model and optimiser."""
    import paddle.distributed.fleet.meta_parallel.sharding.group_sharded_stage3 as stage3
    import paddle.distributed.fleet.meta_parallel.sharding.group_sharded_storage as storage
    import paddle.distributed.fleet.meta_parallel.sharding.group_sharded_utils as utilities
    from paddle.distributed.fleet.meta_parallel.sharding.group_sharded_optimizer_stage2 import (
        GroupShardedOptimizerStage2,
    )
    from paddle.distributed.fleet.meta_parallel.sharding.group_sharded_stage2 import GroupShardedStage2

    for module in (stage3, storage, utilities):
        module.cvt_to_device = lambda tensor, number, blocking=True: tensor
    _keep_parameters(storage.ParamStorage)
    with _named_device():
        if level == "p_g_os":
            model = stage3.GroupShardedStage3(
                model, optimizer=optimizer, group=group, dp_group=dp_group, segment_size=segment_size, device="cpu"
            )
            return model, optimizer
        optimizer = GroupShardedOptimizerStage2(
            params=optimizer._parameter_list, optim=optimizer, group=group, dp_group=dp_group, device="cpu"
        )
        return GroupShardedStage2(model, optimizer, group=group, dp_group=dp_group, device="cpu"), optimizer


def _keep_parameters(kind: Any) -> None:
    """Let a storage take parameters as they are: "to the CPU and back" would free them here."""
    if getattr(kind, "llmperf_keeps", False):
        return
    plain = kind.add_rank_params
    kind.add_rank_params = lambda self, parameters, aligned, convert_gpu=True: plain(self, parameters, aligned, False)
    kind.llmperf_keeps = True


@contextlib.contextmanager
def _named_device() -> Iterator[None]:
    """Let a constructor see a device that has a number."""
    before = paddle.get_device, core.is_compiled_with_cuda
    paddle.get_device, core.is_compiled_with_cuda = lambda: "cpu:0", lambda: True
    try:
        yield
    finally:
        paddle.get_device, core.is_compiled_with_cuda = before
