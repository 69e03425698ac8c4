"""Facts of a model that have to fit together, checked where a model file is read."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.errors import UserError
from llmperf.types.models import Model
from llmperf.types.texts import Text

MOST_TOKENS = 2**24
"""Rows of the largest vocabulary: data that is made here holds a permutation of it."""
MOST_HEADS = 4096
"""More are not searched for the nearest valid number."""
INITIALIZER_STD = (1e-3, 1.0)
"""Range of the deviation of initial weights. With smaller ones all tokens are alike, and first losses say nothing."""
Misfit = tuple[str, str, object]
"""A key, what was expected of it, and what was found."""


def check_model(model: Model, where: str) -> None:
    """UserError for the first facts of a model that contradict one another; `where` names its file."""
    for key, expected, found in misfits(model):
        shown = "none" if found is None else repr(found) if isinstance(found, str) else found
        raise UserError(f"{where}: {key}: expected {expected}, found {shown}")


def misfits(model: Model) -> Iterator[Misfit]:
    """Every contradiction among the facts of a model."""
    yield from _sizes(model)
    if (found := model.counted) is not None:
        if not found.embedding_parameters <= found.active_parameters <= found.parameters:
            expected = Text("{:g} to {:g}", found.embedding_parameters, found.parameters)
            yield "counted.active_parameters", expected, found.active_parameters
        return
    yield from _attention(model)
    yield from _windows(model)
    yield from _mixture(model)
    yield from _positions(model)


def _sizes(model: Model) -> Iterator[Misfit]:
    """Numbers that no model has."""
    if model.vocab_size > MOST_TOKENS:
        yield "vocab_size", Text("at most {}", MOST_TOKENS), model.vocab_size
    if not 0 < model.norm_eps < 1:
        yield "norm_eps", Text("more than 0 and less than 1"), model.norm_eps
    low, high = INITIALIZER_STD
    if not low <= model.initializer_std <= high:
        yield "initializer_std", Text("{:g} to {:g}", low, high), model.initializer_std
    if not model.embedding_scale > 0:
        yield "embedding_scale", Text("more than 0"), model.embedding_scale


def _attention(model: Model) -> Iterator[Misfit]:
    heads, latent = model.attention_heads, model.latent
    if latent is None and model.head_width is None and model.hidden_size % heads:
        nearest = max(number for number in range(1, min(heads, MOST_HEADS)) if model.hidden_size % number == 0)
        expected = Text("a divisor of hidden_size {}, such as {}, or a head_width", model.hidden_size, nearest)
        yield "attention_heads", expected, heads
    if heads % model.kv_heads:
        yield "kv_heads", Text("a divisor of attention_heads {}", heads), model.kv_heads
    if latent is None:
        return
    if model.kv_heads != heads:
        yield "kv_heads", Text("{}, as attention_heads (latent attention groups none)", heads), model.kv_heads
    if model.head_width is not None:
        yield "head_width", Text("none, since [latent] has the widths of a head"), model.head_width
    if model.qk_norm != "none":
        yield "qk_norm", Text("'none' with latent attention, which has norms of its own"), model.qk_norm
    if model.attention_bias:
        yield "attention_bias", Text("none with latent attention"), ", ".join(model.attention_bias)


def _windows(model: Model) -> Iterator[Misfit]:
    pattern = model.window_pattern
    if model.window is None:
        if pattern:
            yield "window", Text("the tokens that a windowed layer sees, since there is a window_pattern"), None
        if model.window_rope_theta is not None:
            yield "window_rope_theta", Text("none without a window"), model.window_rope_theta
        return
    if len(pattern) > model.layers:
        yield "window_pattern", Text("at most {} entries, one for each layer", model.layers), len(pattern)
    if pattern and "window" not in pattern:
        yield "window_pattern", Text("at least one 'window', or no window"), ", ".join(pattern)


def _mixture(model: Model) -> Iterator[Misfit]:
    mixture, active = model.mixture, model.nominal_active_parameters
    if mixture is None:
        if active is not None:
            yield "nominal_active_parameters", Text("none without a [mixture]"), active
        return
    if active is None or active > model.nominal_parameters:
        expected = Text("the round figure of active parameters, at most {}", model.nominal_parameters)
        yield "nominal_active_parameters", expected, active
    if mixture.top_k > mixture.experts:
        yield "mixture.top_k", Text("at most {} (mixture.experts)", mixture.experts), mixture.top_k
    if mixture.dense_layers >= model.layers:
        expected = Text("fewer than {} (layers), or no [mixture]", model.layers)
        yield "mixture.dense_layers", expected, mixture.dense_layers
    if not mixture.shared_experts:
        if mixture.shared_width is not None:
            yield "mixture.shared_experts", Text("1 or more, since there is a shared_width"), 0
        if mixture.shared_gate:
            yield "mixture.shared_experts", Text("1 or more, since there is a shared_gate"), 0
    if mixture.experts % mixture.groups:
        yield "mixture.groups", Text("a divisor of {} (mixture.experts)", mixture.experts), mixture.groups
    elif mixture.top_groups > mixture.groups:
        yield "mixture.top_groups", Text("at most {} (mixture.groups)", mixture.groups), mixture.top_groups
    elif mixture.top_groups * (mixture.experts // mixture.groups) < mixture.top_k:
        expected = Text("groups with at least {} experts (mixture.top_k)", mixture.top_k)
        yield "mixture.top_groups", expected, mixture.top_groups


def _positions(model: Model) -> Iterator[Misfit]:
    if not 0 < model.rotated_share <= 1:
        yield "rotated_share", Text("more than 0 and at most 1"), model.rotated_share
    elif model.position_encoding == "rope":
        yield from _rotation(model)
    elif model.position_encoding == "alibi":
        for key in ("rope_theta", "window_rope_theta"):
            if (theta := getattr(model, key)) is not None:
                yield key, Text("none with position_encoding {!r}", model.position_encoding), theta
    scaling = model.rope_scaling
    if scaling is None:
        return
    if model.position_encoding != "rope":
        yield "rope_scaling", Text("none without position_encoding 'rope'"), scaling.method
    if scaling.factor < 1:
        yield "rope_scaling.factor", Text("at least 1"), scaling.factor
    if scaling.method != "linear" and scaling.original_positions is None:
        expected = Text("the longest sequence of the first training, for {}", scaling.method)
        yield "rope_scaling.original_positions", expected, None
    if scaling.method == "yarn" and (scaling.beta_fast or 32.0) < (scaling.beta_slow or 1.0):
        yield "rope_scaling.beta_fast", Text("at least rope_scaling.beta_slow"), scaling.beta_fast
    if scaling.method == "llama3":
        low, high = scaling.low_frequency, scaling.high_frequency
        if low is None or high is None or low >= high:
            expected = Text("less than rope_scaling.high_frequency, both given for llama3")
            yield "rope_scaling.low_frequency", expected, low


def _rotation(model: Model) -> Iterator[Misfit]:
    """Rotary positions turn pairs of channels."""
    for key in ("rope_theta", "window_rope_theta"):
        if (theta := getattr(model, key)) is not None and theta <= 1:
            yield key, Text("more than 1"), theta
    width = model.rotated_width
    if width % 2 == 0 and width:
        return
    expected = Text("an even number of channels that are rotated")
    if model.latent is not None:
        yield "latent.rope_width", expected, width
    elif model.rotated_share != 1:
        yield "rotated_share", Text("{}, of {} in a head", expected, model.query_width), Text("{} channels", width)
    else:
        yield "head_width", expected, width
