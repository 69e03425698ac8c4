"""Training of a model class of transformers; data, optimiser and sharding are those of llmperf_pytorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import llmperf
import torch
from llmperf.types import Model
from llmperf_huggingface.export import huggingface_config
from llmperf_pytorch import ddp, fsdp
from llmperf_pytorch.fsdp import settle_shards
from llmperf_pytorch.models import blocks_of
from llmperf_torchkit.compiled import compile_blocks
from llmperf_torchkit.losses import mean_cross_entropy
from llmperf_torchkit.precision import adamw_kernel, held_dtype
from llmperf_torchkit.weights import Shard, count_parameters, fill_part
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from llmperf_transformers.limits import attention_of

Values = Mapping[str, torch.Tensor]
"""Initial values of whole parameters that a class of transformers sets itself, by name."""
RENAMED = {".mlp.gate.weight": ".mlp.router.weight", ".mlp.shared_experts.": ".mlp.shared_expert."}
"""Parts of transformers' names that differ between its classes, and llmperf's name of them."""
GATE_UP = "gate_up_proj"


def drawn(shape: Sequence[int]) -> bool:
    """Check whether a parameter is a matrix, or stacked ones, whose initial weights the contract defines."""
    return len(shape) in (2, 3) and min(shape) > 1


@contextmanager
def without_memory(*, all_parameters: bool) -> Iterator[None]:
    """Keep matrices, or all parameters, that are registered inside on the meta device."""
    register = nn.Module.register_parameter

    def registered(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None and not parameter.is_meta and (all_parameters or drawn(parameter.shape)):
            parameter = nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)
        register(module, name, parameter)

    with patch.object(nn.Module, "register_parameter", registered):
        yield


@torch.no_grad()
def fill(
    name: str,
    shape: tuple[int, ...],
    part: torch.Tensor,
    ranges: Sequence[range],
    facts: Model,
    seed: int,
    own: Values,
) -> None:
    """Set `part`, which holds the `ranges` of indexes, by dimension, of a parameter of a shape.

    transformers stacks experts [experts, rows, columns], and gate and up projection in one matrix: the rows of one
    after the rows of the other. GPT-OSS has [experts, columns, rows], and rows of both by turns.
    """
    if name in own:
        part.copy_(own[name][tuple(slice(each.start, each.stop) for each in ranges)])
        return
    if facts.counted is not None:
        fill_part(name, shape, part, tuple(ranges), facts, seed)
        return
    constant = llmperf.initial_constant(name, facts)
    if constant is not None:
        part.fill_(constant)
        return
    for theirs, ours in RENAMED.items():
        name = name.replace(theirs, ours)
    if ".experts." not in name:
        if not name.endswith(f".{GATE_UP}.weight"):
            fill_part(name, shape, part, tuple(ranges), facts, seed)
            return
        matrix = _gate_and_up(name.removesuffix(f"{GATE_UP}.weight"), (shape[0], shape[1]), facts, seed)
        part.copy_(_cut(matrix, ranges))
        return
    turned = facts.family == "gpt_oss"
    rows, columns = shape[:0:-1] if turned else shape[1:]
    layer, projection = name.rsplit(".", 1)
    for place, expert in enumerate(ranges[0]):
        if projection == GATE_UP:
            matrix = _gate_and_up(f"{layer}.{expert}.", (rows, columns), facts, seed)
            matrix = matrix.view(2, rows // 2, columns).transpose(0, 1).reshape(rows, columns) if turned else matrix
        else:
            matrix = torch.empty(rows, columns)
            whole = (range(rows), range(columns))
            fill_part(f"{layer}.{expert}.{projection}.weight", (rows, columns), matrix, whole, facts, seed)
        part[place].copy_(_cut(matrix.T if turned else matrix, ranges[1:]))


def _gate_and_up(prefix: str, shape: tuple[int, int], facts: Model, seed: int) -> torch.Tensor:
    """Gate projection above up projection, float32 [rows of both, columns]."""
    half = (shape[0] // 2, shape[1])
    both = torch.empty(shape)
    for name, part in zip(("gate_proj", "up_proj"), both.chunk(2), strict=True):
        fill_part(f"{prefix}{name}.weight", half, part, (range(half[0]), range(half[1])), facts, seed)
    return both


def _cut(matrix: torch.Tensor, ranges: Sequence[range]) -> torch.Tensor:
    rows, columns = ranges
    return matrix[rows.start : rows.stop, columns.start : columns.stop]


if TYPE_CHECKING:
    from llmperf.types import Model, Plan, RunSpec
    from llmperf_torchkit.trainer import TorchTrainer

    Base = TorchTrainer
else:
    Base = object


def build_model(spec: RunSpec, dtype: torch.dtype) -> nn.Module:
    """transformers' class of the case's model on the default device, with weights of no meaning."""
    values = huggingface_config(spec.model)
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    for part in (config, config.get_text_config()):
        for name in vars(part):
            if spec.model.counted is not None and name.endswith(("dropout", "pdrop", "dropout_prob")):
                setattr(part, name, 0.0)
    experts = {"experts_implementation": spec.framework["experts"]} if "experts" in spec.framework else {}
    model: nn.Module = AutoModelForCausalLM.from_config(
        config,
        dtype=dtype,
        attn_implementation=attention_of(spec),
        **experts,
    )
    if spec.tuning.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if spec.tuning.compile:
        compile_blocks(blocks_of(model))
    return model.train()


def own_values(spec: RunSpec) -> Values:
    """Parameters of a counted model that are no matrices, as its class sets them; the same on each rank."""
    if spec.model.counted is None:
        return {}
    with torch.random.fork_rng(devices=[]), torch.device("cpu"), without_memory(all_parameters=False):
        torch.manual_seed(spec.contract.seed)
        model = build_model(spec, held_dtype(spec.contract.precision))
    return {name: values.detach().clone() for name, values in model.named_parameters() if not values.is_meta}


def fill_whole(name: str, parameter: torch.Tensor, spec: RunSpec, own: Values) -> None:
    """Set a whole parameter to its initial values."""
    shape = tuple(parameter.shape)
    fill(name, shape, parameter, [range(size) for size in shape], spec.model, spec.contract.seed, own)


class Transformers(Base):
    """What both trainers share: the loss, kernels by name, tokens of experts."""

    _loads: list[torch.Tensor]
    _model: Any

    def _loss(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The mean cross entropy of [batch, seq_len] ids, whose labels are the tokens that follow."""
        return mean_cross_entropy(self._model(input_ids=inputs, use_cache=False).logits, labels)

    @property
    def kernels(self) -> Mapping[str, str]:
        """transformers' own names of its implementations, for the result."""
        config: Any = getattr(self._trained, "module", self._trained).config
        names = {
            "attention": f"transformers: {config._attn_implementation}",
            "optimizer": adamw_kernel(self._optimizer),
        }
        if self._plan.spec.model.mixture is not None:
            names["experts"] = f"transformers: {config._experts_implementation}"
        return names

    def expert_tokens(self) -> list[list[int]] | None:
        """Tokens of each expert of each mixture on this rank; None for a dense model."""
        return torch.stack(self._loads).tolist() if self._loads else None


class ReplicatedTrainer(Transformers, ddp.DdpTrainer):
    """The whole model on each rank; weights and AdamW states in float32, 16 bits by autocast."""

    def _make(self) -> nn.Module:
        spec = self._plan.spec
        with self._device:
            model = build_model(spec, held_dtype(spec.contract.precision))
        self.parameter_count = count_parameters(model)
        own = own_values(spec)
        for name, parameter in model.named_parameters():
            fill_whole(name, parameter, spec, own)
        self._loads = route_and_count(model, self._plan, self._device)
        return model


class ModelShard(Shard):
    """A rank's part of a parameter of transformers."""

    own: Values

    def fill(self, facts: Model, seed: int) -> None:
        """Set it to its initial values."""
        fill(self.name, self.shape, self.local, self.ranges(), facts, seed, self.own)


class ShardedTrainer(Transformers, fsdp.ShardedTrainer):
    """FSDP2: weights and AdamW states in shards; blocks are gathered in the dtype of products."""

    def _make(self) -> nn.Module:
        """The model with parameters on the meta device; its buffers, such as rotary frequencies, have their values."""
        self._own = own_values(self._plan.spec)
        with without_memory(all_parameters=True):
            model = build_model(self._plan.spec, held_dtype(self._plan.spec.contract.precision))
        for module in model.modules():
            module._buffers = {
                name: value if value is None else value.to(self._device) for name, value in module._buffers.items()
            }
        self.parameter_count = count_parameters(model)
        return model

    def _materialise(self, model: nn.Module) -> None:
        buffers = {name: buffer.to(self._device, copy=True) for name, buffer in model.named_buffers()}
        model.to_empty(device=self._device)
        settle_shards(model)
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])
        self._loads = route_and_count(model, self._plan, self._device)

    def _shard(self, name: str, parameter: nn.Parameter) -> Shard:
        shard = ModelShard(name, parameter)
        shard.own = self._own
        return shard


def route_and_count(model: nn.Module, plan: Plan, device: torch.device) -> list[torch.Tensor]:
    """Count the tokens that each expert takes, and send tokens where the contract's tables say, if it has any.

    Returns int64 [experts] for each mixture, to which every forward pass of a block adds; its repetition in the
    backward pass does not.
    """
    facts, contract = plan.spec.model, plan.spec.contract
    if facts.mixture is None:
        return []
    loads = []
    for place, block in enumerate(blocks_of(model)):
        if place < facts.dense_layers:
            continue
        layer: Any = block.get_submodule("mlp")
        if contract.routing != "learned":
            table = llmperf.routing_table(contract.seed, facts, place, contract.routing, contract.routing_skew)
            rows = torch.from_numpy(table).to(device)
            layer.forward = _routed(layer.forward, rows, contract.seq_len, facts.mixture.experts)
        load = torch.zeros(facts.mixture.experts, dtype=torch.int64, device=device)
        latest: list[torch.Tensor] = []

        def note(_: nn.Module, inputs: tuple[torch.Tensor, ...], latest: list[torch.Tensor] = latest) -> None:
            latest[:] = [inputs[1].detach().flatten()]

        def count(block: nn.Module, *_: object, latest: list[torch.Tensor] = latest, load: torch.Tensor = load) -> None:
            if block.training:
                load.scatter_add_(0, latest[0], torch.ones_like(latest[0]))

        layer.experts.register_forward_pre_hook(note)
        block.register_forward_hook(count)
        loads.append(load)
    return loads


def _routed(forward: Callable[..., Any], table: torch.Tensor, seq_len: int, experts: int) -> Callable[..., Any]:
    """A mixture's forward pass whose router takes experts from a table [positions, top_k], by a token's position.

    transformers has no setting for it: `torch.topk`, by which its routers choose, is replaced during the call.
    """
    topk = torch.topk

    def from_table(scores: torch.Tensor, k: int, *others: Any, **named: Any) -> Any:
        if (scores.shape[-1], k) != (experts, table.shape[1]):
            return topk(scores, k, *others, **named)  # of groups of experts
        places = torch.arange(scores.shape[0], device=scores.device) % seq_len % table.shape[0]
        chosen = table.index_select(0, places)
        return scores.gather(-1, chosen), chosen

    def routed(*inputs: Any, **named: Any) -> Any:
        with patch.object(torch, "topk", from_table):
            return forward(*inputs, **named)

    return routed
