"""Parameters of a model by component, in all and those that one token passes, of pipeline stages and of adapters."""

from __future__ import annotations

from itertools import pairwise

from llmperf.errors import UserError, unknown
from llmperf.types import Lora, Model
from llmperf.types.frozen import dataclass
from llmperf.types.models import Projection

Shape = tuple[int, int]
"""Inputs and outputs of a projection."""
FEED_FORWARD = ("gate_proj", "up_proj", "down_proj")
"""Projections of a dense feed-forward layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCount:
    """Parameters of each component of a decoder-only transformer, multi-token layers included."""

    input_embedding: int
    attention: int
    """Projections of queries, keys, values and output, of all layers."""
    mlp: int
    """Gate, up and down projections of all dense feed-forward layers."""
    experts: int = 0
    """The same of all routed experts."""
    shared_experts: int = 0
    """The same of experts that every token passes."""
    router: int = 0
    """Projections to the scores of experts, and gates of shared experts."""
    norms: int
    """Gains of RMSNorms: of the blocks, the last one, those in attention and in multi-token layers."""
    others: int = 0
    """Biases and sinks."""
    multi_token: int = 0
    """The projections before multi-token layers; what else these have is counted with its kind."""
    head: int
    """Output projection; 0 where it is the input embedding (tied)."""
    counted: int = 0
    """All but the input embedding, of a model whose parameters a program has counted."""
    idle_experts: int = 0
    """Parameters of routed experts that one token does not pass."""
    idle_others: int = 0
    """Biases of these."""
    repeated_head: int = 0
    """Parameters of the output projection, once for each multi-token layer, which use it again."""

    @property
    def components(self) -> dict[str, int]:
        """Parameters by component, those that the model has."""
        found = {
            "input embedding": self.input_embedding,
            "attention": self.attention,
            "feed-forward": self.mlp,
            "experts": self.experts,
            "shared experts": self.shared_experts,
            "router": self.router,
            "norms": self.norms,
            "biases and sinks": self.others,
            "multi-token projection": self.multi_token,
            "head": self.head,
            "others": self.counted,
        }
        return {name: parameters for name, parameters in found.items() if parameters}

    @property
    def total(self) -> int:
        """All parameters."""
        return sum(self.components.values())

    @property
    def active(self) -> int:
        """Parameters that one token passes: of the routed experts `top_k`. Equal to the total in a dense model."""
        return self.total - self.idle_experts - self.idle_others

    @property
    def looked_up(self) -> int:
        """Parameters outside matrix products: the input embedding, unless it is also the output projection."""
        return self.input_embedding if self.head or self.counted else 0

    @property
    def added(self) -> int:
        """Active parameters that are not in matrix products: norms, biases and sinks."""
        return self.norms + self.others - self.idle_others

    @property
    def multiplied(self) -> int:
        """Active parameters in matrix products, as often as they are used: two FLOPs each per token, forward."""
        return self.active + self.repeated_head - self.looked_up - self.added


def count_parameters(model: Model) -> ParameterCount:
    """Count a model's parameters exactly.

    ALiBi and rotary positions have none. NormHead scales the head's rows and adds none, and a bias that balances the
    loads of experts is not trained by gradients: neither is counted. Of a counted model only totals are known.
    """
    if (found := model.counted) is not None:
        embedding, idle = found.embedding_parameters, found.parameters - found.active_parameters
        others = {"attention": 0, "mlp": 0, "norms": 0, "head": 0, "idle_experts": idle}
        return ParameterCount(input_embedding=embedding, counted=found.parameters - embedding, **others)
    hidden, extra = model.hidden_size, model.multi_token_layers
    blocks, dense = model.layers + extra, model.dense_layers + (extra if model.mixture is None else 0)
    embedding = model.vocab_size * hidden
    plain, mixed = _layer(model, dense=True), _layer(model, dense=False)
    layers = {name: dense * plain.get(name, 0) + (blocks - dense) * mixed.get(name, 0) for name in {**plain, **mixed}}
    layers["norms"] += (1 + 3 * extra) * hidden
    return ParameterCount(
        input_embedding=embedding,
        **layers,
        multi_token=extra * 2 * hidden * hidden,
        head=0 if model.tied_embeddings else embedding,
        repeated_head=extra * embedding,
    )


def _layer(model: Model, *, dense: bool) -> dict[str, int]:
    """Parameters of one layer with a dense feed-forward layer, or with a mixture, by the field of `ParameterCount`."""
    hidden, heads, mixture, latent = model.hidden_size, model.attention_heads, model.mixture, model.latent
    norms = model.norms_per_block * hidden + 2 * model.query_width * (model.qk_norm == "head")
    if latent is not None:
        norms += (latent.q_rank or 0) + latent.kv_rank
    keys = model.kv_heads * model.query_width
    widths: dict[Projection, int] = {"q": heads * model.query_width, "k": keys, "v": keys, "o": hidden}
    others = sum(widths[name] for name in set(model.attention_bias)) + model.sinks * heads
    layer = {"attention": attention_parameters(model), "norms": norms, "others": others}
    if dense or mixture is None:
        inner = model.intermediate_size
        layer["others"] += (2 * inner + hidden) * model.feed_forward_bias
        return {**layer, "mlp": 3 * hidden * inner}
    idle, (weights, biases) = max(0, mixture.experts - mixture.top_k), _expert(model)
    layer["others"] += mixture.experts * (biases + mixture.router_bias)
    return {
        **layer,
        "experts": mixture.experts * weights,
        "shared_experts": 3 * hidden * shared_width(model),
        "router": hidden * (mixture.experts + mixture.shared_gate),
        "idle_experts": idle * weights,
        "idle_others": idle * biases,
    }


def _expert(model: Model) -> tuple[int, int]:
    """Weights and biases of one routed expert."""
    mixture, hidden = model.mixture, model.hidden_size
    if mixture is None:
        return 0, 0
    return 3 * hidden * mixture.expert_width, (2 * mixture.expert_width + hidden) * mixture.expert_bias


def shared_width(model: Model) -> int:
    """Inner width of all shared experts of a layer together; 0 without any."""
    mixture = model.mixture
    if mixture is None or not mixture.shared_experts:
        return 0
    return mixture.shared_width or mixture.shared_experts * mixture.expert_width


def attention_shapes(model: Model) -> dict[str, Shape]:
    """Each projection of a layer's attention, by its name in published checkpoints."""
    hidden, heads = model.hidden_size, model.attention_heads
    queries, values = heads * model.query_width, heads * model.value_width
    if (latent := model.latent) is not None:
        shapes = {"q_proj": (hidden, queries)}
        if latent.q_rank is not None:
            shapes = {"q_a_proj": (hidden, latent.q_rank), "q_b_proj": (latent.q_rank, queries)}
        return {
            **shapes,
            "kv_a_proj_with_mqa": (hidden, latent.kv_rank + latent.rope_width),
            "kv_b_proj": (latent.kv_rank, heads * latent.nope_width + values),
            "o_proj": (values, hidden),
        }
    keys = model.kv_heads * model.query_width
    if model.family == "baichuan":
        return {"W_pack": (hidden, queries + 2 * keys), "o_proj": (values, hidden)}
    projections = {"q_proj": (hidden, queries), "k_proj": (hidden, keys), "v_proj": (hidden, keys)}
    return {**projections, "o_proj": (values, hidden)}


def attention_parameters(model: Model) -> int:
    """Parameters of the projections of one layer's attention."""
    return sum(inputs * outputs for inputs, outputs in attention_shapes(model).values())


def stage_parameters(model: Model, stages: int) -> tuple[int, ...]:
    """Parameters of each stage: equally many layers, the input embedding on the first, norm and head on the last.

    With tied embeddings, the first and the last stage both hold the shared matrix, and with multi-token layers, which
    are on the last stage, so do they hold the input embedding.
    """
    count = count_parameters(model)
    if stages == 1:
        return (count.total,)
    if model.counted is not None:
        raise UserError(f"model {model.name}: parameters of pipeline stages are not known of a counted model")
    bounds = [stage * model.layers // stages for stage in range(stages + 1)]
    dense, mixture = (
        sum(parameters for name, parameters in layer.items() if not name.startswith("idle"))
        for layer in (_layer(model, dense=True), _layer(model, dense=False))
    )
    sizes = []
    for first, last in pairwise(bounds):
        dense_layers = max(0, min(last, model.dense_layers) - first)
        sizes.append(dense_layers * dense + (last - first - dense_layers) * mixture)
    sizes[0] += count.input_embedding
    sizes[-1] = count.total - sum(sizes[:-1])
    if model.tied_embeddings or model.multi_token_layers:
        sizes[-1] += count.input_embedding
    return tuple(sizes)


def stage_experts(model: Model, stages: int) -> tuple[int, ...]:
    """Parameters of routed experts in each stage, biases included; they are among `stage_parameters`."""
    each = 0 if model.mixture is None else model.mixture.experts * sum(_expert(model))
    return tuple(len(mixture_layers(model, stages, stage)) * each for stage in range(stages))


def mixture_layers(model: Model, chunks: int = 1, chunk: int = 0) -> range:
    """The layers with experts in one of `parts` equal pipeline stages, from 0; multi-token layers come last."""
    if model.mixture is None:
        return range(0)
    first, last = (place * model.layers // chunks for place in (chunk, chunk + 1))
    extra = model.multi_token_layers if chunk == chunks - 1 else 0
    return range(max(first, model.dense_layers), last + extra)


def lora_parameters(model: Model, lora: Lora) -> int:
    """Trainable parameters of the adapters: rank x (inputs + outputs) of each target projection, in every layer.

    Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1. Experts take no adapters. Raises
    UserError for a target module that the model does not have.
    """
    if model.counted is not None:
        raise UserError(f"contract.lora: the projections of a counted model are not known ({model.name})")
    shapes, hidden, inner = attention_shapes(model), model.hidden_size, model.intermediate_size
    if model.mixture is None:
        shapes |= zip(FEED_FORWARD, ((hidden, inner), (hidden, inner), (inner, hidden)), strict=True)
    for name in lora.target_modules:
        if model.mixture is not None and name in FEED_FORWARD:
            expected = f"projections of attention ({', '.join(shapes)}), since experts take no adapters"
            raise UserError(f"contract.lora.target_modules: expected {expected}, found {name!r} ({model.name})")
        if name not in shapes:
            raise unknown("contract.lora.target_modules", "projection", name, shapes)
    return model.layers * lora.rank * sum(sum(shapes[name]) for name in set(lora.target_modules))
