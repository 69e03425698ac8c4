"""Contract, tuning and cases, and the RunSpec that a case is resolved to with its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from llmperf.types.flop_counts import Precision
from llmperf.types.frozen import dataclass
from llmperf.types.models import Model
from llmperf.types.units import Count, Decay, NonNegative, Positive, Skew

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """AdamW with a learning-rate schedule, all from the case."""

    name: Literal["adamw"] = "adamw"
    """The optimiser."""
    lr: NonNegative
    """Highest learning rate."""
    beta1: Decay = 0.9
    """Decay of the first moment."""
    beta2: Decay = 0.95
    """Decay of the second moment."""
    eps: NonNegative = 1e-8
    """Term added to the denominator."""
    weight_decay: NonNegative = 0.1
    """Decoupled from the gradient."""
    clip_norm: NonNegative | None = 1.0
    """Largest gradient norm; None for no clipping."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Schedule of the learning rate after its warm-up."""
    warmup_steps: Count = 0
    """Linear warm-up of the learning rate; not to be confused with `contract.warmup_steps`."""
    min_lr: NonNegative = 0.0
    """Learning rate at the end of the cosine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Low-rank adapters on frozen weights."""

    rank: Positive = 8
    """Columns of the adapter."""
    alpha: Positive = 32
    """Scale of the adapter is alpha / rank."""
    dropout: NonNegative = 0.05
    """On the adapter's input."""
    target_modules: tuple[str, ...] = ("q_proj", "v_proj")
    """Projections that have adapters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The measured work. A change makes the result a variant of its case."""

    model: str
    """Name of the model: of a `models/*.toml`, or of the user's own file without its ending."""
    dataset: str
    """`synthetic`, `python-stdlib`, or the name of a published data set read from local files (`[data]`)."""
    seq_len: Positive
    """Tokens in one sequence."""
    global_batch: Positive
    """Sequences in one optimiser step, over all ranks."""
    packing: Literal["packed", "padded"] = "packed"
    """`packed`: records joined and cut into sequences; `padded`: one record per sequence, cut or padded to seq_len.
    Padding is neither predicted nor counted."""
    precision: Precision
    """The recipe, of `data/precisions.toml`: the dtypes of products, weights, gradients and optimiser states."""
    optimizer: Optimizer
    """The optimiser and its schedule."""
    steps: Positive
    """Optimiser steps in all, warm-up included."""
    warmup_steps: Count
    """First steps, which train but are not measured."""
    seed: Count = 0
    """Fixes the initial weights and the order of the data."""
    lora: Lora | None = None
    """Adapters, when only these are trained; None when all weights are."""
    routing: Literal["learned", "balanced", "skewed"] = "learned"
    """Experts of a mixture that the tokens take: `learned`: those with the router's highest scores; `balanced`: all
    equally often; `skewed`: some more often, by Zipf's law. The last two go by tables that the seed determines, and the
    router still gives the weights of the chosen experts. Dense models have `learned`."""
    routing_skew: Skew = 1.0
    """Exponent of Zipf's law for `skewed` routing: the n-th most popular expert takes tokens in proportion to
    n^-exponent, at most all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Settings that are free to change. Every change is recorded."""

    framework: str
    """Name of the framework plugin."""
    nodes: Positive = 1
    """Machines."""
    devices: Positive = 1
    """Per node."""
    micro_batch: Positive = 1
    """Sequences in one forward pass of one data-parallel rank."""
    gradient_accumulation: Positive | None = None
    """Micro batches per optimiser step; None: global_batch / (micro_batch x data parallel)."""
    tensor_parallel: Positive = 1
    """Ranks that split each layer."""
    pipeline_parallel: Positive = 1
    """Stages that the layers are divided into."""
    context_parallel: Positive = 1
    """Ranks that split each sequence."""
    expert_parallel: Positive = 1
    """Ranks that split the experts of a mixture; a divisor of data x context parallel."""
    sequence_parallel: bool = False
    """The tensor-parallel ranks also split the sequence in norms and dropout."""
    sharding_stage: Literal[0, 1, 2, 3] = 0
    """0: replicated; 1: optimiser states; 2: and gradients; 3: and parameters."""
    sharding_degree: Positive | None = None
    """Ranks that share one copy of the sharded state; None: all data- and context-parallel ranks."""
    gradient_checkpointing: bool = False
    """Activations are dropped and computed again during the backward pass."""
    recompute: Literal["block", "operations"] = "block"
    """Parts that gradient checkpointing computes again: whole blocks, or only operations that cost little, so that the
    results of matrix products and attention are kept."""
    recompute_every: Positive = 1
    """Gradient checkpointing in every n-th block."""
    pipeline_schedule: Literal["1f1b", "interleaved", "zero_bubble"] = "1f1b"
    """Order of the micro batches in pipeline stages."""
    virtual_stages: Positive = 1
    """Pipeline stages that each rank holds, for interleaved schedules."""
    accumulation_dtype: Literal["auto", "fp32"] = "auto"
    """Dtype in which gradients are added up over micro batches and ranks; `auto`: as the framework does by default."""
    attention: Literal["auto", "eager", "sdpa", "flash", "efficient", "cudnn", "flex"] = "auto"
    """Attention kernel."""
    fused_ops: tuple[str, ...] = ("auto",)
    """Names of fused kernels, as the framework knows them; `auto` is all that it has for the devices."""
    compile: bool = False
    """A compiler fuses the operations of each block, such as `torch.compile`."""
    emulate_precision: bool = False
    """Fp8 is emulated on devices without it: operands are rounded to fp8 and multiplied in the dtype of the rest. Such
    a run has no MFU."""


OPTIONAL_SETTINGS = (
    "recompute",
    "recompute_every",
    "pipeline_schedule",
    "virtual_stages",
    "accumulation_dtype",
    "compile",
    "emulate_precision",
)
"""Settings of `Tuning` that only some frameworks support: a framework lists its own in `WorkerPlan.settings`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """Location of the tokens on this machine; not part of the contract."""

    path: str | None = None
    """File or folder; None if the data set needs no file."""
    format: Literal["auto", "text", "npy", "megatron", "huggingface"] = "auto"
    """Format of the file; `auto` goes by its name and content."""
    tokenizer: str = "bytes"
    """`bytes`, or the path of a `tokenizer.json`."""
    repeat: bool = False
    """Begin again when the tokens run out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTokens:
    """The tokens of a data set, as an extension reads them."""

    setting: str
    """The setting that selects the data, which errors name."""
    ids: NDArray[np.integer]
    """All tokens, [tokens]; documents end with the tokenizer's end token."""
    record_lengths: NDArray[np.integer] | None = None
    """Tokens of each record, in their order; None for a stream, which cannot be padded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One `cases/*.toml` as read."""

    name: str
    """The name for `llmperf run`; the name of the file."""
    title: str
    """Title for people."""
    description: str
    """Description of the measured work, in a few lines."""
    source: str
    """Publication of the hyper-parameters."""
    contract: Contract
    """The contract."""
    tuning: Tuning
    """Default tuning."""
    framework: Mapping[str, Scalar] = field(default_factory=dict)
    """Options of the framework plugin, which checks them."""
    data: DataSource = field(default_factory=DataSource)
    """Default location of the tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One departure from the case. The list of them is `fix_hp`: computed, never typed."""

    path: str
    """Path, such as `contract.seq_len` or `tuning.micro_batch`."""
    case_value: Scalar | None
    """The value in the case; None if the case has no value."""
    value: Scalar | None
    """The value of the run."""
    origin: str
    """`--set`, `--devices`, an overlay file, or the rule that determines it."""

    @property
    def contract(self) -> bool:
        """The change makes the result a variant."""
        return self.path.startswith("contract.")

    def __str__(self) -> str:
        """The change as text, such as `tuning.micro_batch 1 -> 4 (--set)`."""
        shown = ("unset" if one is None else "[]" if one == "" else str(one) for one in (self.case_value, self.value))
        return f"{self.path} {' -> '.join(shown)} ({self.origin}{', contract' if self.contract else ''})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """A case with its model, overlays and `--set` applied."""

    case: str
    """Name of the case."""
    title: str
    """Title of the case."""
    contract: Contract
    """The contract, changes applied."""
    tuning: Tuning
    """Tuning, changes applied."""
    model: Model
    """The facts of the model."""
    framework: Mapping[str, Scalar] = field(default_factory=dict)
    """Options of the framework plugin."""
    data: DataSource = field(default_factory=DataSource)
    """Location of the tokens."""
    changes: tuple[Change, ...] = ()
    """Every departure from the case."""
    challenge: str | None = None
    """The nonce of the challenge that determines `contract.seed`, 64 hexadecimal digits; that seed is no departure from
    the case. None without a challenge."""

    @property
    def variant(self) -> bool:
        """The contract was changed."""
        return any(change.contract for change in self.changes)
