"""A step of megatron-core: its schedule over micro batches, its reductions, its optimiser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import llmperf
import torch
from llmperf.types import Device, Layout, Model, Plan, StepOutput
from llmperf_torchkit.losses import deferred, record_token_losses
from llmperf_torchkit.precision import set_matmul_precision
from llmperf_torchkit.processes import join_ranks, joined, leave_ranks, torch_device
from llmperf_torchkit.trainer import Feed, TorchTrainer
from llmperf_torchkit.weights import fill_part
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, finalize_model_grads
from megatron.core.optimizer import get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed
from megatron.core.transformer.moe.router import TopKRouter
from megatron.core.transformer.moe.router_replay import RouterReplay, RouterReplayAction
from megatron.core.transformer.transformer_layer import get_transformer_layer_offset

from llmperf_megatron_core.configuration import (
    data_parallel_config,
    expert_tensor_parallel,
    model_chunk,
    optimizer_config,
    transformer_config,
    uses_transformer_engine,
)

NAMES = {
    "embedding.word_embeddings.weight": "model.embed_tokens.weight",
    "output_layer.weight": "lm_head.weight",
    "decoder.final_layernorm.weight": "model.norm.weight",
}
PARTS = {
    "input_layernorm.weight": "input_layernorm.weight",
    "self_attention.linear_qkv.layer_norm_weight": "input_layernorm.weight",
    "self_attention.linear_proj.weight": "self_attn.o_proj.weight",
    "self_attention.q_layernorm.weight": "self_attn.q_norm.weight",
    "self_attention.k_layernorm.weight": "self_attn.k_norm.weight",
    "pre_mlp_layernorm.weight": "post_attention_layernorm.weight",
    "mlp.linear_fc1.layer_norm_weight": "post_attention_layernorm.weight",
    "mlp.linear_fc2.weight": "mlp.down_proj.weight",
    "mlp.router.weight": "mlp.router.weight",
}
"""llmperf's names of the parts of a layer; Transformer Engine keeps norms with the projection that follows."""
EXPERT = re.compile(r"mlp\.experts\.(?:local_experts\.(\d+)\.linear_(fc[12])\.weight|linear_(fc[12])\.weight(\d+))")
COLUMNS = ("o_proj.weight", "down_proj.weight")
"""Parameters whose columns tensor-parallel ranks divide; they divide the rows of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a rank is: its tensor-parallel rank, its expert-parallel rank, and the number of its first layer."""

    tensor: int
    expert: int
    first_layer: int


@torch.no_grad()
def fill_weights(
    named: Iterable[tuple[str, torch.Tensor]], place: Place, layout: Layout, model: Model, seed: int
) -> None:
    """Set the parameters of one model chunk to their initial values."""
    for name, parameter in named:
        rows = torch.cat(list(_pieces(name, place, layout, model, seed)))
        if rows.shape != parameter.shape:
            raise ValueError(f"{name}: expected {tuple(parameter.shape)}, found {tuple(rows.shape)}")
        parameter.copy_(rows)


def _pieces(name: str, place: Place, layout: Layout, model: Model, seed: int) -> Iterator[torch.Tensor]:
    """This rank's part of a parameter, in blocks of rows."""
    ways, rank = layout.tensor_parallel, place.tensor

    def draw(ours: str, shape: tuple[int, ...], divided: str = "rows") -> torch.Tensor:
        """A rank's part of one of llmperf's parameters."""
        axis = {"rows": 0, "columns": 1, "none": None}[divided]
        ranges = [range(size) for size in shape]
        if axis is not None:
            each = shape[axis] // ways
            ranges[axis] = range(rank * each, (rank + 1) * each)
        part = torch.empty([len(indexes) for indexes in ranges])
        fill_part(ours, shape, part, tuple(ranges), model, seed)
        return part

    hidden, width = model.hidden_size, model.query_width
    if name in NAMES:
        ours = NAMES[name]
        if ours == "lm_head.weight" and model.tied_embeddings:
            ours = NAMES["embedding.word_embeddings.weight"]
        yield draw(ours, (hidden,), "none") if "norm" in ours else draw(ours, (model.vocab_size, hidden))
        return
    layer, _, part = name.removeprefix("decoder.layers.").partition(".")
    prefix = f"model.layers.{int(layer) + place.first_layer}."
    if (match := EXPERT.fullmatch(part)) is not None:
        local, kind = match[1] or match[4], match[2] or match[3]
        mixture = model.mixture
        assert mixture is not None
        expert = int(local) + place.expert * (mixture.experts // layout.expert_parallel)
        names = ("gate_proj", "up_proj") if kind == "fc1" else ("down_proj",)
        shape = (mixture.expert_width, hidden) if kind == "fc1" else (hidden, mixture.expert_width)
        divided = "none" if layout.expert_parallel > 1 else "rows" if kind == "fc1" else "columns"
        for projection in names:
            yield draw(f"{prefix}mlp.experts.{expert}.{projection}.weight", shape, divided)
    elif part == "mlp.linear_fc1.weight":  # each rank has its part of the gate, then of the other
        for projection in ("gate_proj", "up_proj"):
            yield draw(f"{prefix}mlp.{projection}.weight", (model.intermediate_size, hidden))
    elif part.startswith("self_attention.linear_qkv.") and not part.endswith("layer_norm_weight"):
        # for each group of queries: the queries of its heads, its key, its value
        kind = part.rpartition(".")[2]
        rest = (hidden,) if kind == "weight" else ()
        groups = model.kv_heads // ways
        split = []
        for projection, heads in (("q", model.attention_heads), ("k", model.kv_heads), ("v", model.kv_heads)):
            values = draw(f"{prefix}self_attn.{projection}_proj.{kind}", (heads * width, *rest))
            split.append(values.view(groups, -1, *rest))
        yield torch.cat(split, dim=1).flatten(0, 1)
    else:
        ours = prefix + PARTS[part]
        if llmperf.initial_constant(ours, model) is not None:
            yield draw(ours, (width if "self_attn" in ours else hidden,), "none")
        elif part == "mlp.router.weight":
            assert model.mixture is not None
            yield draw(ours, (model.mixture.experts, hidden), "none")
        else:
            inner = model.attention_heads * width if "o_proj" in ours else model.intermediate_size
            yield draw(ours, (hidden, inner), "columns")


class MegatronTrainer(TorchTrainer):
    """Weights in the case's precision, master weights and AdamW states in float32, sharded at stage 1."""

    def __init__(self, plan: Plan, device: Device) -> None:
        self._plan, self._contract, layout = plan, plan.spec.contract, plan.layout
        self._device = torch_device(device)
        self._feed = Feed(plan, self._device)
        self._joins = not joined()
        if self._joins:
            join_ranks(plan, device.collective_backend)
        set_matmul_precision(self._contract.precision)
        virtual = plan.spec.tuning.virtual_stages
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=layout.tensor_parallel,
            pipeline_model_parallel_size=layout.pipeline_parallel,
            virtual_pipeline_model_parallel_size=virtual if virtual > 1 else None,
            expert_model_parallel_size=layout.expert_parallel,
            expert_tensor_parallel_size=expert_tensor_parallel(layout),
            create_gloo_process_groups=False,
        )
        if not plan.probe.on_cpu:
            model_parallel_cuda_manual_seed(self._contract.seed + 1)
        self._config = transformer_config(plan)
        self._loads: list[torch.Tensor] = []
        self._chunks = torch.nn.ModuleList([self._chunk(stage) for stage in range(virtual)])
        self.parameter_count = self._count()
        self._optimizer = get_megatron_optimizer(
            optimizer_config(plan), list(self._chunks), use_gloo_process_groups=False
        )
        self._config.finalize_model_grads_func = finalize_model_grads
        self._config.grad_scale_func = self._optimizer.scale_loss
        self._config.no_sync_func = [chunk.no_sync for chunk in self._chunks]
        if virtual == 1:
            self._config.no_sync_func = self._config.no_sync_func[0]
        self._schedule = get_forward_backward_func()
        self._last = parallel_state.is_pipeline_last_stage(ignore_virtual=True)
        self._reports = self._last and parallel_state.get_tensor_model_parallel_rank() == 0
        self._measure_calls(device)
        self._step = 0

    def _chunk(self, stage: int) -> torch.nn.Module:
        """One pipeline stage of this rank with its initial weights, and data parallelism around it."""
        plan, virtual = self._plan, self._plan.spec.tuning.virtual_stages
        index = stage if virtual > 1 else None
        first = parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=index)
        last = parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=index)
        model = model_chunk(plan, self._config, first=first, last=last, stage=index).to(self._device)
        offset = get_transformer_layer_offset(self._config, vp_stage=index)
        place = Place(
            tensor=parallel_state.get_tensor_model_parallel_rank(),
            expert=parallel_state.get_expert_model_parallel_rank(),
            first_layer=offset,
        )
        fill_weights(model.named_parameters(), place, plan.layout, plan.spec.model, self._contract.seed)
        for layer in model.decoder.layers:
            for router in (part for part in layer.modules() if isinstance(part, TopKRouter)):
                self._route_and_count(router, layer.layer_number - 1)
        return DistributedDataParallel(self._config, data_parallel_config(plan), model)

    def _route_and_count(self, router: TopKRouter, layer: int) -> None:
        """Add up the tokens of each expert; send tokens where the contract's table says, if it has one."""
        spec = self._plan.spec
        mixture = spec.model.mixture
        assert mixture is not None
        load = torch.zeros(mixture.experts, dtype=torch.int64, device=self._device)
        repeats = spec.tuning.gradient_checkpointing

        def count(_: Any, __: Any, answer: tuple[torch.Tensor, torch.Tensor]) -> None:
            if not (repeats and torch.is_grad_enabled()):  # the repetition in the backward pass
                load.add_(answer[1].sum(0))

        router.register_forward_hook(count)
        self._loads.append(load)
        if spec.contract.routing == "learned":
            return
        table = torch.from_numpy(
            llmperf.routing_table(
                spec.contract.seed, spec.model, layer, spec.contract.routing, spec.contract.routing_skew
            )
        ).to(self._device)
        batch, layout = self._plan.batch, self._plan.layout
        parts = layout.tensor_parallel if layout.sequence_parallel else 1
        each = batch.seq_len // parts
        own = parallel_state.get_tensor_model_parallel_rank() * each if parts > 1 else 0
        places = torch.arange(own, own + each, device=self._device).repeat_interleave(batch.micro_batch)
        replay: RouterReplay = router.router_replay
        replay.target_topk_idx = table[places % len(table)]
        replay.set_router_replay_action(RouterReplayAction.REPLAY_FORWARD)

    def _count(self) -> int:
        """Parameters of the whole model, tied ones once, added up over the ranks that share it."""
        layout, own = self._plan.layout, 0
        for chunk in self._chunks:
            for name, parameter in chunk.module.named_parameters():
                if name == "output_layer.weight" and self._plan.spec.model.tied_embeddings:
                    continue
                divided = getattr(parameter, "tensor_model_parallel", False)
                ways = layout.tensor_parallel if divided else 1
                if ".experts." in name:
                    ways = layout.expert_parallel * (expert_tensor_parallel(layout) if divided else 1)
                own += parameter.numel() * ways
        if layout.pipeline_parallel == 1:
            return own
        total = torch.tensor(own, device=self._device)
        torch.distributed.all_reduce(total, group=parallel_state.get_pipeline_model_parallel_group())
        return int(total)

    @property
    def _trained(self) -> torch.nn.Module:
        return self._chunks

    @property
    def kernels(self) -> Mapping[str, str]:
        """Layers by whose implementation, for the result."""
        layers = "Transformer Engine" if uses_transformer_engine(self._plan) else "megatron-core"
        inner = getattr(self._optimizer, "chained_optimizers", [self._optimizer])[0].optimizer
        names = {"attention": layers, "rms_norm": layers, "optimizer": f"megatron-core: {type(inner).__name__}"}
        if self._plan.spec.model.mixture is not None:
            names["experts"] = f"{layers}, tokens by {self._config.moe_token_dispatcher_type}"
        return names

    def _forward(self, batches: Iterator[tuple[torch.Tensor, torch.Tensor]], model: torch.nn.Module) -> Any:
        """For the schedule: the output of a chunk, and how a loss follows from it."""
        inputs, labels = next(batches)
        positions = torch.arange(inputs.shape[1], device=self._device).expand_as(inputs)
        output = model(inputs, positions, None, labels=labels)

        def loss(token_losses: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
            record_token_losses(token_losses, labels)
            mean = token_losses.float().mean()
            return mean, {"loss": mean.detach().clone()}  # the schedule scales `mean` in place

        return output, loss

    def _train_step(self) -> StepOutput:
        """All micro batches through the schedule, which also reduces the gradients, and one update."""
        batch, settings = self._plan.batch, self._contract.optimizer
        for chunk in self._chunks:
            chunk.zero_grad_buffer()
        self._optimizer.zero_grad()
        micro = [self._feed.next() for _ in range(batch.gradient_accumulation)]
        losses = self._schedule(
            forward_step_func=self._forward,
            data_iterator=[iter(micro) for _ in self._chunks] if len(self._chunks) > 1 else iter(micro),
            model=list(self._chunks),
            num_microbatches=batch.gradient_accumulation,
            seq_length=batch.seq_len,
            micro_batch_size=batch.micro_batch,
            forward_only=False,
        )
        rate = llmperf.learning_rate(settings, self._step + 1, self._contract.steps)
        for group in self._optimizer.param_groups:
            group["lr"], group["weight_decay"] = rate, settings.weight_decay * group["wd_mult"]
        done, norm, _ = self._optimizer.step()
        self._step += 1
        if self._plan.layout.sequence_parallel and self._step == self._contract.steps:
            for load in self._loads:  # each rank has routed its part of the sequences
                torch.distributed.all_reduce(load, group=parallel_state.get_tensor_model_parallel_group())
        reported = self._reports
        return StepOutput(
            loss=deferred(torch.stack([entry["loss"] for entry in losses]).mean()) if reported else None,
            tokens=batch.micro_batch * batch.gradient_accumulation * batch.seq_len if reported else 0,
            grad_norm=None if norm is None or settings.clip_norm is None else float(norm),
            skipped=not done,
        )

    def expert_tokens(self) -> list[list[int]] | None:
        """Tokens of each expert of each mixture, of this rank's sequences; None for a dense model."""
        return torch.stack(self._loads).tolist() if self._loads else None

    def close(self) -> None:
        """Let the data go, and leave the process groups."""
        self._feed.close()
        parallel_state.destroy_model_parallel()
        if self._joins:
            leave_ranks()
