"""A model, by the facts of its architecture: parameters, FLOPs and memory follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from llmperf.types.frozen import dataclass
from llmperf.types.units import NOT_STATED, Count, NonNegative, Positive, Stated

Projection = Literal["q", "k", "v", "o"]
"""A projection of attention."""
Span = Literal["window", "full"]
"""Span of a layer's attention: the last `Model.window` tokens, or all tokens before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Multi-head latent attention: keys and values are projected from a vector of low rank (arXiv:2405.04434)."""

    kv_rank: Positive
    """Width of the vector that keys and values are made from."""
    q_rank: Positive | None = None
    """Width of the vector that queries are made from; None: they are projected from the residual stream."""
    rope_width: Positive
    """Rotated part of a query or key; all heads share that of the key."""
    nope_width: Positive
    """Part of a query or key without positions."""
    value_width: Positive
    """Width of the values of one head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """A mixture of experts in place of the feed-forward layer; experts are gated, as the dense layer is."""

    experts: Positive
    """Routed experts of a layer."""
    top_k: Positive
    """Experts that a token passes."""
    expert_width: Positive
    """Inner width of one routed expert."""
    shared_experts: Count = 0
    """Experts that every token passes."""
    shared_width: Positive | None = None
    """Inner width of all shared experts together; None: shared_experts x expert_width."""
    shared_gate: bool = False
    """A learned gate scales what the shared experts add."""
    dense_layers: Count = 0
    """The first layers, which have a dense feed-forward layer of `intermediate_size` instead."""
    router_score: Literal["softmax", "sigmoid"] = "softmax"
    """Function that makes scores of the router's products."""
    router_bias: bool = False
    """The router adds a trained bias."""
    expert_bias: bool = False
    """The projections of experts add biases."""
    normalized_scores: bool = True
    """The scores of a token's experts are scaled to a sum of 1."""
    score_scale: NonNegative = 1.0
    """Factor of the scores."""
    balanced_by_bias: bool = False
    """A bias that no gradient trains moves the choice of experts towards equal loads (arXiv:2408.15664)."""
    groups: Positive = 1
    """Groups that the experts are divided into; a token takes experts of `top_groups` of them."""
    top_groups: Positive = 1
    """Groups of which a token takes experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """Stretching of rotary positions beyond the lengths of the first training."""

    method: Literal["linear", "llama3", "yarn"]
    """`linear`: positions divided by the factor; `llama3`: low frequencies only; `yarn`: arXiv:2309.00071."""
    factor: NonNegative
    """Factor by which the longest sequence grows."""
    original_positions: Positive | None = None
    """Longest sequence of the first training."""
    low_frequency: NonNegative | None = None
    """`llama3`: frequencies below this many turns in the original length are divided by the factor."""
    high_frequency: NonNegative | None = None
    """`llama3`: frequencies above this many turns stay."""
    beta_fast: NonNegative | None = None
    """`yarn`: frequencies above this many turns in the original length stay."""
    beta_slow: NonNegative | None = None
    """`yarn`: frequencies below this many turns are divided by the factor."""
    attention_scale: NonNegative | None = None
    """`yarn`: multiplies queries and keys; None: 0.1 ln(factor) + 1."""
    score_scale: NonNegative | None = None
    """`yarn` in latent attention: c in (0.1 c ln(factor) + 1)^2, by which scores are multiplied besides."""
    truncated: bool = True
    """`yarn`: whether the bounds between frequencies are rounded to whole dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedPart:
    """A part of a published model beside its decoder, by its number of parameters alone."""

    name: str
    """Name, such as `vision tower`."""
    parameters: Positive
    """Published number of parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFacts:
    """A model whose architecture the facts do not express: its configuration, and what a program has counted."""

    definition: str
    """JSON of the configuration that the model is built of; the `family` is its name."""
    built_by: str
    """Framework that builds it."""
    parameters: Positive
    """All parameters."""
    active_parameters: Positive
    """Those that one token passes."""
    embedding_parameters: Count
    """Those that are looked up, not multiplied."""
    forward_flops: NonNegative
    """FLOPs per token of the matrix products of a forward pass, without scores of attention."""
    attention_flops: NonNegative
    """FLOPs per token of scores and weighted values over all pairs, for each token of a sequence."""
    caveats: tuple[str, ...] = ()
    """What the program does not see, such as recurrences, or counts though a kernel would leave it out."""
    counted_by: str
    """Program and versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder-only transformer with RMSNorm and gated feed-forward layers.

    What is not given is as in Llama: attention over all tokens before, rotary positions, SwiGLU, no biases. Only
    counted models may leave out sizes, and are what their `definition` says.
    """

    name: str
    """The name that cases use."""
    title: str
    """Title for people."""
    family: str
    """The name by which a framework chooses the definition that builds it: `llama`, `qwen3_moe`. A framework refuses
    families that it does not build."""
    nominal_parameters: Positive
    """The round figure in its name, 7e9 for a 7B model: what published MFU figures are computed from."""
    nominal_active_parameters: Positive | None = None
    """The round figure of a mixture's active parameters, 3e9 for 30B-A3B; FLOPs by the nominal convention follow from
    it. None for a dense model."""
    vocab_size: Positive
    """Rows of the embedding."""
    hidden_size: Positive
    """Width of the residual stream."""
    intermediate_size: Stated = NOT_STATED
    """Inner width of a dense feed-forward layer; not used if all layers are mixtures."""
    layers: Positive
    """Transformer blocks."""
    attention_heads: Stated = NOT_STATED
    """Query heads."""
    kv_heads: Stated = NOT_STATED
    """Key and value heads; fewer than query heads where they are grouped."""
    head_width: Positive | None = None
    """Width of a query, key or value of one head; None: hidden_size / attention_heads."""
    qk_norm: Literal["none", "head"] = "none"
    """Norms of queries and keys; `head`: over the width of a head, with a gain that all heads share."""
    attention_bias: tuple[Projection, ...] = ()
    """Projections of attention that add biases."""
    sinks: bool = False
    """Each head has a trained score that takes a share of attention and adds nothing."""
    window: Positive | None = None
    """Tokens that a windowed layer sees, its own included; None: no layer has a window."""
    window_pattern: tuple[Span, ...] = ()
    """Layers with the window, repeated over all layers; empty: all, if there is a window."""
    latent: Latent | None = None
    """Latent attention in place of query, key and value projections; None for ordinary attention."""
    query_scale_width: Positive | None = None
    """Scores are divided by the square root of this; None: the width of a query."""
    activation: Literal["swiglu", "geglu", "swiglu_clamped"] = "swiglu"
    """Gated activation; `geglu` with the tanh form of GELU, `swiglu_clamped` as in GPT-OSS (arXiv:2508.10925)."""
    feed_forward_bias: bool = False
    """The projections of dense feed-forward layers add biases."""
    mixture: Mixture | None = None
    """A mixture of experts in place of feed-forward layers; None for a dense model."""
    max_positions: Stated = NOT_STATED
    """Longest sequence it was trained on."""
    norm_eps: NonNegative
    """Epsilon of RMSNorm."""
    norms_per_block: Literal[2, 4] = 2
    """RMSNorms of a block: before attention and feed-forward layer, or before and after each."""
    norm_offset: bool = False
    """A norm multiplies by 1 + its weight."""
    position_encoding: str
    """Encoding of positions: `rope`, `alibi`. A framework refuses encodings that it does not have."""
    rope_theta: NonNegative | None = None
    """Base of the rotary encoding; None with another encoding."""
    window_rope_theta: NonNegative | None = None
    """The base in layers with a window, which are not scaled; None: as in the others."""
    rope_scaling: RopeScaling | None = None
    """Stretching of rotary positions; None: not stretched."""
    rotated_share: NonNegative = 1.0
    """Part of each query and key that is rotated."""
    rotated_pairs: Literal["halves", "neighbours"] = "halves"
    """Elements that a rotation pairs: those of both halves of a head, or neighbours."""
    tied_embeddings: bool = False
    """Input embedding and output projection are one matrix."""
    embedding_scale: NonNegative = 1.0
    """Factor of the embeddings."""
    normalized_head: bool = False
    """Baichuan2's NormHead: the rows of the output projection are scaled to unit length at each forward."""
    multi_token_layers: Count = 0
    """Blocks after the last layer that each predict one token further (arXiv:2412.19437, section 2.2)."""
    stated_parts: tuple[StatedPart, ...] = ()
    """Parts beside the decoder, such as a vision tower: shown, neither trained nor in any count."""
    initializer_std: NonNegative = 0.02
    """Standard deviation of the initial weights."""
    source: str
    """Publication of the facts."""
    counted: CountedFacts | None = None
    """Definition and counts of a model that the other facts do not express; None: they do."""

    def __post_init__(self) -> None:
        """Raise ValueError for a size that is not stated, unless the model is a counted one."""
        sizes = ("intermediate_size", "attention_heads", "kv_heads", "max_positions")
        if self.counted is None and (absent := [name for name in sizes if getattr(self, name) is None]):
            raise ValueError(f"{absent[0]}: expected more than 0, found none")

    @property
    def query_width(self) -> int:
        """Width of the query of one head, which is that of a key."""
        if self.latent is not None:
            return self.latent.nope_width + self.latent.rope_width
        return self.head_width or self.hidden_size // self.attention_heads

    @property
    def value_width(self) -> int:
        """Width of the value of one head."""
        return self.query_width if self.latent is None else self.latent.value_width

    @property
    def rotated_width(self) -> int:
        """Channels of a query or key that positions rotate: the first ones, or those of `Latent.rope_width`."""
        if self.latent is not None:
            return self.latent.rope_width
        return int(self.query_width * self.rotated_share)

    @property
    def windowed_layers(self) -> int:
        """Layers whose attention has a window; multi-token layers are not among them."""
        if self.window is None:
            return 0
        pattern = self.window_pattern[: self.layers] or ("window",)
        repeats, rest = divmod(self.layers, len(pattern))
        return repeats * pattern.count("window") + pattern[:rest].count("window")

    @property
    def dense_layers(self) -> int:
        """Layers with a dense feed-forward layer; multi-token layers are not among them."""
        return self.layers if self.mixture is None else min(self.mixture.dense_layers, self.layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedModel:
    """A model as another program's file describes it, before the core has checked it."""

    facts: Mapping[str, Any]
    """Keys and values of a model file. Without `name`, `title` and nominal figures: those are the core's."""
    source: str
    """The file and what it says of itself, as `Model.source`."""
    not_expressed: tuple[str, ...] = ()
    """Statements of the file that the model's facts cannot express, in a line each."""
    notes: tuple[str, ...] = ()
    """Assumptions where the file leaves something out, and parts of the file that are not used, in a line each."""
