"""A step of torchtitan's trainer on llmperf's batches, with its loss and gradient norm."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import llmperf
import torch
from llmperf.types import Device, Model, Plan, StepOutput
from llmperf_torchkit.losses import deferred, record_logits
from llmperf_torchkit.precision import set_matmul_precision
from llmperf_torchkit.processes import joined, leave_ranks, meet_as_agent_says, own_rank, set_timeouts, torch_device
from llmperf_torchkit.trainer import Feed, TorchTrainer
from llmperf_torchkit.weights import Shard, fill_part
from torchtitan.distributed import ParallelDims
from torchtitan.distributed import utils as titan_distributed
from torchtitan.trainer import Trainer

from llmperf_torchtitan.configuration import optimiser_kind, trainer_config

NAMES = {
    "tok_embeddings.weight": "model.embed_tokens.weight",
    "norm.weight": "model.norm.weight",
    "lm_head.weight": "lm_head.weight",
}
PARTS = {
    "attention.wo.weight": "self_attn.o_proj.weight",
    "attention.q_norm.weight": "self_attn.q_norm.weight",
    "attention.k_norm.weight": "self_attn.k_norm.weight",
    "feed_forward.w1.weight": "mlp.gate_proj.weight",
    "feed_forward.w3.weight": "mlp.up_proj.weight",
    "feed_forward.w2.weight": "mlp.down_proj.weight",
    "attention_norm.weight": "input_layernorm.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "moe.router.gate.weight": "mlp.router.weight",
}
"""llmperf's names of the parts of a layer."""
EXPERTS = {"w1_EFD": "gate_proj", "w3_EFD": "up_proj", "w2_EDF": "down_proj"}
LAYER = re.compile(r"layers\.(\d+)\.(.*)")
WRAPPERS = re.compile(r"_orig_mod\.|_checkpoint_wrapped_module\.")


@torch.no_grad()
def fill_weights(model: torch.nn.Module, facts: Model, seed: int) -> None:
    """Set this rank's parts of all parameters to their initial values."""
    for name, parameter in model.named_parameters():
        shard = Shard(WRAPPERS.sub("", name), parameter)
        _fill(shard, shard.ranges(), facts, seed)


def _fill(shard: Shard, ranges: list[range], facts: Model, seed: int) -> None:
    name, shape, part = shard.name, shard.shape, shard.local
    if name in NAMES:
        fill_part(NAMES[name], shape, part, tuple(ranges), facts, seed)
        return
    match = LAYER.fullmatch(name)
    assert match is not None, name
    prefix, rest = f"model.layers.{match[1]}.", match[2]
    if rest in PARTS:
        fill_part(prefix + PARTS[rest], shape, part, tuple(ranges), facts, seed)
    elif rest == "attention.qkv_linear.wqkv.weight":
        rows, columns = ranges
        whole = _fused(prefix, facts, seed)
        part.copy_(whole[rows.start : rows.stop, columns.start : columns.stop])
    else:
        projection = EXPERTS[rest.rpartition(".")[2]]
        for place, expert in enumerate(ranges[0]):
            named = f"{prefix}mlp.experts.{expert}.{projection}.weight"
            fill_part(named, shape[1:], part[place], tuple(ranges[1:]), facts, seed)


def _fused(prefix: str, facts: Model, seed: int) -> torch.Tensor:
    """Queries, key and value of each group of queries, float32 [rows, hidden_size].

    Llama's class rotates neighbours, llmperf and Hugging Face the halves of a head: its rows go in another order.
    """
    width, hidden, split = facts.query_width, facts.hidden_size, []
    for projection, heads in (("q", facts.attention_heads), ("k", facts.kv_heads), ("v", facts.kv_heads)):
        rows = torch.empty(heads * width, hidden)
        whole = (range(heads * width), range(hidden))
        fill_part(f"{prefix}self_attn.{projection}_proj.weight", (heads * width, hidden), rows, whole, facts, seed)
        if projection != "v" and facts.qk_norm == "none":
            rows = rows.view(heads, 2, width // 2, hidden).transpose(1, 2).reshape(heads * width, hidden)
        split.append(rows.view(facts.kv_heads, -1, hidden))
    return torch.cat(split, dim=1).flatten(0, 1)


def count_parameters(model: torch.nn.Module) -> int:
    """Parameters of the whole model or stage, tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


class Observed(Trainer):
    """The trainer; the losses of its micro batches are kept, not only logged."""

    losses: list[torch.Tensor]

    def init_distributed(self) -> ParallelDims:
        """As torchtitan's, unless this process is in a group already."""
        if joined():
            torch.autograd.set_multithreading_enabled(False)  # meshes are those of a thread, as torchtitan has it
            return ParallelDims.from_config(self.config.parallelism, torch.distributed.get_world_size())
        dims: ParallelDims = super().init_distributed()
        return dims

    def forward_backward_step(self, **named: Any) -> torch.Tensor:
        """As torchtitan's."""
        loss = super().forward_backward_step(**named)
        self.losses.append(loss.detach())
        return loss


class TitanTrainer(TorchTrainer):
    """Weights and AdamW states in float32, in shards; blocks are gathered in the dtype of products."""

    def __init__(self, plan: Plan, device: Device) -> None:
        self._plan, self._contract, layout = plan, plan.spec.contract, plan.layout
        self._device = torch_device(device)
        self._feed = Feed(plan, torch.device("cpu"))  # torchtitan counts the labels there, and then moves them
        self._joins = not joined()
        meet_as_agent_says()
        timeout = set_timeouts(plan)
        set_matmul_precision(self._contract.precision)
        self._folder = tempfile.TemporaryDirectory(prefix="llmperf-torchtitan-")
        config = trainer_config(plan, self._folder.name)
        config.comm.init_timeout_seconds = config.comm.train_timeout_seconds = int(timeout.total_seconds())
        self._titan = Observed(config)
        self._titan.metrics_processor.should_log = lambda step: False
        loss_fn = self._titan.loss_fn

        def recorded(pred: torch.Tensor, labels: torch.Tensor, *others: Any, **named: Any) -> Any:
            record_logits(pred, labels)
            return loss_fn(pred, labels, *others, **named)

        if layout.pipeline_parallel == layout.tensor_parallel == 1:  # ranks that share logits see a part of them
            self._titan.loss_fn = recorded
        for part in self._titan.model_parts:
            fill_weights(part, plan.spec.model, self._contract.seed)
        self.parameter_count = sum(map(count_parameters, self._titan.model_parts))
        if layout.pipeline_parallel > 1:
            total = torch.tensor(self.parameter_count, device=self._device)
            torch.distributed.all_reduce(total, group=self._titan.parallel_dims.get_mesh("pp").get_group())
            self.parameter_count = int(total)
        self._optimizer = next(iter(self._titan.optimizers))
        self._batches = self._micro_batches()
        rank = own_rank()
        last = layout.coordinate(rank, "pipeline") == layout.pipeline_parallel - 1
        self._reports = last and layout.coordinate(rank, "tensor") == 0
        self._measure_calls(device)

    def _micro_batches(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        while True:
            inputs, labels = self._feed.next()
            batch = {"input": inputs.contiguous()}
            if not (self._plan.probe.on_cpu or self._plan.spec.tuning.attention == "sdpa"):
                batch["positions"] = torch.arange(inputs.shape[1], device=inputs.device).expand_as(inputs)
            yield batch, labels.contiguous()

    @property
    def _trained(self) -> torch.nn.Module:
        return torch.nn.ModuleList(self._titan.model_parts)

    @property
    def kernels(self) -> Mapping[str, str]:
        """torchtitan's own names, for the result."""
        sdpa = self._plan.probe.on_cpu or self._plan.spec.tuning.attention == "sdpa"
        return {
            "attention": f"torchtitan: {'scaled_dot_product_attention' if sdpa else 'FlexAttention'}",
            "blocks": "torch.compile" if self._plan.spec.tuning.compile else "separate operations",
            "optimizer": f"torchtitan: {optimiser_kind(self._titan.optimizers)}",
        }

    def _train_step(self) -> StepOutput:
        """torchtitan's own step, at the contract's learning rate."""
        titan, batch, settings = self._titan, self._plan.batch, self._contract.optimizer
        titan.losses = []
        titan.step += 1
        rate = llmperf.learning_rate(settings, titan.step, self._contract.steps)
        for optimizer in titan.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        norms: list[torch.Tensor] = []
        clip = titan_distributed.clip_grad_norm_

        def clipped(*arguments: Any, **named: Any) -> torch.Tensor:
            norms.append(clip(*arguments, **named))
            return norms[-1]

        titan_distributed.clip_grad_norm_ = clipped
        try:
            titan.train_step(self._batches)
        finally:
            titan_distributed.clip_grad_norm_ = clip
        # torchtitan divides the sum of a rank's token losses by the tokens of all data-parallel ranks
        mean = torch.stack(titan.losses).sum() * batch.data_parallel if self._reports else None
        return StepOutput(
            loss=None if mean is None else deferred(mean),
            tokens=batch.micro_batch * batch.gradient_accumulation * batch.seq_len if self._reports else 0,
            grad_norm=None if settings.clip_norm is None else deferred(norms[0]),
            skipped=False,
        )

    def expert_tokens(self) -> list[list[int]] | None:
        """Tokens of each expert of each mixture on this rank; None for a dense model."""
        loads = [
            module.tokens_per_expert_E
            for part in self._titan.model_parts
            for module in part.modules()
            if hasattr(module, "tokens_per_expert_E")
        ]
        return [load.int().tolist() for load in loads] if loads else None

    def close(self) -> None:
        """Let the data go, and leave the process groups."""
        self._feed.close()
        self._titan.close()
        self._folder.cleanup()
        if self._joins:
            leave_ranks()
