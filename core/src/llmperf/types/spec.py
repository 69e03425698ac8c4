"""What is measured: a model, a case (contract and tuning), and both resolved into a RunSpec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from llmperf.types.devices import Precision
from llmperf.types.units import Count, NonNegative, Positive

Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder-only transformer with RMSNorm and SwiGLU, by the facts that fix its parameters and its FLOPs."""

    name: str
    title: str
    family: Literal["llama", "baichuan"]
    """Which definition builds it."""
    nominal_parameters: Positive
    """The round figure in its name, 7e9 for a 7B model: what published MFU figures are computed from."""
    vocab_size: Positive
    hidden_size: Positive
    intermediate_size: Positive
    layers: Positive
    attention_heads: Positive
    kv_heads: Positive
    max_positions: Positive
    norm_eps: NonNegative
    position_encoding: Literal["rope", "alibi"]
    rope_theta: NonNegative | None = None
    tied_embeddings: bool = False
    normalized_head: bool = False
    """Baichuan2's NormHead: the rows of the output projection are scaled to unit length at each forward."""
    initializer_std: NonNegative = 0.02
    source: str
    """Where the facts are published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """AdamW with a learning-rate schedule, all from the case."""

    name: Literal["adamw"] = "adamw"
    lr: NonNegative
    beta1: NonNegative = 0.9
    beta2: NonNegative = 0.95
    eps: NonNegative = 1e-8
    weight_decay: NonNegative = 0.1
    clip_norm: NonNegative | None = 1.0
    """Largest gradient norm; None for no clipping."""
    schedule: Literal["constant", "cosine"] = "constant"
    warmup_steps: Count = 0
    """Linear warm-up of the learning rate; not to be confused with `Contract.warmup_steps`."""
    min_lr: NonNegative = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Low-rank adapters on frozen weights."""

    rank: Positive = 8
    alpha: Positive = 32
    dropout: NonNegative = 0.05
    target_modules: tuple[str, ...] = ("q_proj", "v_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What is measured. A change makes the result a variant of its case."""

    model: str
    dataset: str
    """`synthetic`, `python-stdlib`, or the name of a published data set read from local files (`[data]`)."""
    seq_len: Positive
    global_batch: Positive
    """Sequences in one optimiser step, over all ranks."""
    precision: Precision
    optimizer: Optimizer
    steps: Positive
    """Optimiser steps in all, warm-up included."""
    warmup_steps: Count
    """First steps, trained but not counted in the throughput."""
    seed: Count = 0
    lora: Lora | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How it is run. Free to change; every change is recorded."""

    framework: str
    nodes: Positive = 1
    devices: Positive = 1
    """Per node."""
    micro_batch: Positive = 1
    gradient_accumulation: Positive | None = None
    """None: what the global batch leaves, global_batch / (micro_batch x data parallel)."""
    tensor_parallel: Positive = 1
    pipeline_parallel: Positive = 1
    sharding_stage: Literal[0, 1, 2, 3] = 0
    """0: replicated; 1: optimiser states; 2: and gradients; 3: and parameters, over the data-parallel ranks."""
    sharding_degree: Positive | None = None
    """Over how many data-parallel ranks; None: over all."""
    gradient_checkpointing: bool = False
    attention: Literal["auto", "eager", "sdpa", "flash"] = "auto"
    fused_ops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """Where the tokens are on this machine; not part of the contract."""

    path: str | None = None
    format: Literal["auto", "text", "npy", "megatron", "huggingface"] = "auto"
    tokenizer: str = "bytes"
    """`bytes`, or the path of a `tokenizer.json`."""
    repeat: bool = False
    """Begin again when the tokens run out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One `cases/*.toml` as read."""

    name: str
    title: str
    description: str
    source: str
    contract: Contract
    tuning: Tuning
    framework: Mapping[str, Scalar] = field(default_factory=dict)
    """Options of the framework plugin, which checks them."""
    data: DataSource = field(default_factory=DataSource)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One departure from the case. The list of them is `fix_hp`: computed, never typed."""

    path: str
    """Such as `contract.seq_len` or `tuning.micro_batch`."""
    case_value: Scalar | None
    value: Scalar | None
    origin: str
    """`--set`, `--devices`, an overlay file, or the rule that it follows from."""

    @property
    def contract(self) -> bool:
        """Whether it makes the result a variant."""
        return self.path.startswith("contract.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """A case with its model, overlays and `--set` applied."""

    case: str
    title: str
    contract: Contract
    tuning: Tuning
    model: Model
    framework: Mapping[str, Scalar] = field(default_factory=dict)
    data: DataSource = field(default_factory=DataSource)
    changes: tuple[Change, ...] = ()

    @property
    def variant(self) -> bool:
        """Whether the contract was changed."""
        return any(change.contract for change in self.changes)
