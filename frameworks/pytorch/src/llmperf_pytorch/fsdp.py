"""Training in shards by FSDP2 (`fully_shard`): what each stage keeps, gathers and reduces, the parts of a rank.

FSDP2 divides the weights that are updated and AdamW states among the ranks at every stage, float32 or in pure bf16
bfloat16, and gathers the parameters in the dtype of the products. The stages (Rajbhandari et al. 2020) are when it
gathers and reduces:

| Stage | Gathered parameters are kept | Gradients are reduced |
|---|---|---|
| 1 | from the first micro batch of a step to the last | with the last micro batch, added up whole until then |
| 2 | from the first micro batch of a step to the last | with each micro batch, added up in shards |
| 3 | for one block at a time | with each micro batch, added up in shards |
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from llmperf.types import Device, Plan, RunSpec
from llmperf_torchkit.precision import adamw_of, default_dtype, held_dtype, rest_dtype
from llmperf_torchkit.weights import Shard, count_parameters, local_part, total_norm
from torch.distributed import device_mesh
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from llmperf_pytorch.ddp import DdpTrainer
from llmperf_pytorch.models import blocks_of, construct_model, set_buffers


def shard_model(model: torch.nn.Module, spec: RunSpec, mesh: DeviceMesh) -> FSDPModule:
    """The same model, each of its blocks gathered by itself; `mesh` has the dimensions `replicate` and `shard`."""
    keeps = spec.tuning.sharding_stage < 3
    data = mesh["replicate", "shard"] if mesh["replicate"].size() > 1 else mesh["shard"]
    dtype, policy = rest_dtype(spec.contract.precision), MixedPrecisionPolicy()
    if dtype is not held_dtype(spec.contract.precision):  # gradients too, unless they are added up in float32
        reduced = torch.float32 if spec.tuning.accumulation_dtype == "fp32" else dtype
        policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=reduced)
    blocks = [
        fully_shard(block, mesh=data, mp_policy=policy, reshard_after_forward=not keeps) for block in blocks_of(model)
    ]
    if spec.model.counted is None and not spec.model.tied_embeddings:
        fully_shard(
            model.get_submodule("model.embed_tokens"), mesh=data, mp_policy=policy, reshard_after_forward=not keeps
        )
    fully_shard(model, mesh=data, mp_policy=policy, reshard_after_forward=False)
    depth = int(spec.framework.get("prefetch", 1))
    for place, block in enumerate(blocks):  # gathered while another one computes
        block.set_modules_to_forward_prefetch(blocks[place + 1 : place + 1 + depth])
        block.set_modules_to_backward_prefetch(blocks[max(0, place - depth) : place][::-1])
    assert isinstance(model, FSDPModule)
    return model


def settle_shards(model: torch.nn.Module) -> None:
    """Gather each part once: FSDP2 then replaces shards of unequal sizes by padded ones, which stay where they are."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.unshard()
            module.reshard()


class ShardedTrainer(DdpTrainer):
    """Weights and AdamW states in shards, float32 or pure bf16; blocks are gathered in the dtype of products."""

    def __init__(self, plan: Plan, device: Device) -> None:
        super().__init__(plan, device)
        self._measure_calls(device)

    def _make(self) -> torch.nn.Module:
        """The model without memory: no rank ever holds a whole copy in float32."""
        with torch.device("meta"), default_dtype(held_dtype(self._contract.precision)):
            model = construct_model(self._plan.spec, self._kernels)
        self.parameter_count = count_parameters(model)
        return model.train()

    def _distribute(self, model: torch.nn.Module) -> torch.nn.Module:
        spec = self._plan.spec
        layout = self._plan.layout
        shards = layout.sharding_degree
        sizes = (layout.data_parallel // shards, shards)
        mesh = device_mesh.init_device_mesh(self._device.type, sizes, mesh_dim_names=("replicate", "shard"))
        self._sharded = shard_model(model, spec, mesh)
        self._materialise(model)
        self._shards = [self._shard(name, parameter) for name, parameter in model.named_parameters()]
        for shard in self._shards:
            shard.fill(spec.model, spec.contract.seed)
        return model

    def _materialise(self, model: torch.nn.Module) -> None:
        """Give shards and buffers memory, and buffers their values."""
        model.to_empty(device=self._device)
        settle_shards(model)
        set_buffers(model, self._device)

    def _shard(self, name: str, parameter: torch.nn.Parameter) -> Shard:
        return Shard(name, parameter)

    def _make_optimizer(self) -> torch.optim.Optimizer:
        named = [(shard.name, shard.local) for shard in self._shards if shard.local.numel()]
        return adamw_of(named, self._contract.optimizer, self._device)

    def _synchronised(self, last: bool) -> AbstractContextManager[None]:
        """Set what the pass keeps, gathers and reduces; `last`: the last micro batch of its step."""
        stage = self._plan.layout.sharding_stage
        self._sharded.set_is_last_backward(last)
        self._sharded.set_requires_gradient_sync(last or stage >= 2)
        self._sharded.set_requires_all_reduce(last)
        self._sharded.set_reshard_after_backward(last or stage == 3)
        return nullcontext()

    def _propagate(self, loss: torch.Tensor, *, last: bool) -> None:
        loss.backward()  # waits are measured in the calls of collectives

    def _autocast(self) -> AbstractContextManager[object]:
        return nullcontext()  # parameters are gathered in the case's precision

    def _take_gradients(self) -> None:
        for shard in self._shards:
            gradient: Any = shard.parameter.grad
            if isinstance(gradient, DTensor) and isinstance(shard.parameter, DTensor):
                gradient = gradient.redistribute(placements=shard.parameter.placements)
            shard.local.grad = None if gradient is None else local_part(gradient)

    def _clip(self, largest: float) -> torch.Tensor:
        norm = total_norm(self._shards)
        torch.nn.utils.clip_grads_with_norm_([shard.local for shard in self._shards], largest, norm)
        return norm

    def _drop_gradients(self) -> None:
        for shard in self._shards:
            shard.parameter.grad = shard.local.grad = None

    def _found_overflow(self) -> list[torch.Tensor]:
        """Each rank has looked at its own shards: an overflow in one is an overflow of all."""
        flags = super()._found_overflow()
        for flag in flags:
            torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
        return flags
