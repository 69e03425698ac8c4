"""The conventions of FLOPs, the FLOPs of one trained token by each, and of one forward pass by component.

One multiply-add is two FLOPs. A weight in a matrix product costs 2 in the forward pass, 2 for the gradient of its
input and 2 for its own gradient (Kaplan et al. 2020, table 1); a frozen weight needs no gradient: 4 instead of 6.
Attention over K keys costs 2 K FLOPs for each element of a query (scores) and of a value (weighted sum) forward, and
twice as many backward: 12 L W S in all for L layers, S keys and heads x width = W (Chowdhery et al. 2022, PaLM,
appendix B). Where queries and values have different widths, W is the mean of both.

Padded records have fewer than S tokens, and only these are counted. Attention over S would credit each of them with
work on padding, so every convention leaves attention out for padded contracts: a lower bound.
"""

from __future__ import annotations

from functools import cache
from math import prod
from pathlib import Path
from typing import Literal

from llmperf.accounting.parameters import count_parameters
from llmperf.files.json_files import convert
from llmperf.files.user_files import read_toml
from llmperf.types.flop_counts import Workload
from llmperf.types.frozen import dataclass
from llmperf.types.models import Model

Weights = Literal["nominal", "total", "active", "without_embedding", "multiplied"]
Attention = Literal["none", "full", "by_hidden_size", "causal", "windowed", "half_windows"]
ALL_PAIRS = ("full", "by_hidden_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """The operations that one convention counts; `data/conventions.toml` explains the choices."""

    name: str
    """Name, such as `causal`, or the choices themselves: `active+causal`."""
    weights: Weights
    """Whose products are counted."""
    attention: Attention
    """The scores and weighted values that are counted."""
    recompute: bool = False
    """The forward pass that gradient checkpointing repeats is counted."""
    known_as: tuple[str, ...] = ()
    """Programs and papers that count in this way."""
    near: tuple[str, ...] = ()
    """Programs whose figures differ by less than 0.1 %."""
    in_results: bool = True
    """Results have an MFU by it."""
    source: str = ""
    """Publication of the convention."""

    @property
    def title(self) -> str:
        """The name with the programs that count in this way, such as `full (torchtitan, MaxText)`."""
        users = [*self.known_as, *(f"nearly {program}" for program in self.near)]
        return f"{self.name} ({', '.join(users)})" if users else self.name


@cache
def known_conventions() -> dict[str, Convention]:
    """The named conventions."""
    path = Path(__file__).parents[1] / "data" / "conventions.toml"
    tables = read_toml(path)
    return {name: convert({"name": name, **table}, Convention, str(path)) for name, table in tables.items()}


PADDED = "attention, and all work on padding: the tokens of each record are not known"
ELEMENTWISE = "element-wise work: norms, softmax, positions, activations, residuals, loss, optimiser"

Term = tuple[float, ...]
"""Factors of a product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConventionFlops:
    """FLOPs per trained token by one convention."""

    flops: float
    """Forward and backward."""
    formula: str
    """Formula with the figures filled in."""
    leaves_out: tuple[str, ...]
    """Operations that are not counted."""


def flops_by(convention: Convention, model: Model, workload: Workload) -> ConventionFlops:
    """FLOPs per trained token of a model by a convention."""
    count, adapters, weights = count_parameters(model), workload.lora_parameters, convention.weights
    forwards = workload.recomputed_share if convention.recompute and workload.gradient_checkpointing else 0
    once = 6 if adapters is None else 4
    factor = once + 2 * forwards
    left_out = []
    if weights == "nominal":
        size = model.nominal_active_parameters or model.nominal_parameters
        parts: list[tuple[float, float, str]] = [(factor, size, f"{size:,}")]
        beyond = count.active - size
        left_out += [f"parameters beyond the nominal size: {once} x {beyond:,}"] * (beyond > 0)
    elif model.counted is not None and weights == "multiplied":
        parts = [(factor / 2, model.counted.forward_flops, f"{model.counted.forward_flops:,.10g}")]
    else:
        size = {
            "multiplied": count.multiplied - count.repeated_head,
            "without_embedding": count.active - count.looked_up,
            "active": count.active,
            "total": count.total,
        }[weights]
        shown = f"({count.active:,} - {count.looked_up:,})" if weights == "without_embedding" else f"{size:,}"
        parts = [(factor, size, shown)]
        if count.repeated_head:
            parts.append((factor, count.repeated_head, f"{count.repeated_head:,}"))
        if adapters is not None:
            parts.append((6 + 2 * forwards, adapters, f"{adapters:,}"))
    attention = "none" if workload.padded else convention.attention
    terms = attention_terms(model, workload.seq_len, attention, 3 + forwards)
    formula = " + ".join([*(f"{each:g} x {text}" for each, _, text in parts), *map(_product, terms)])
    if adapters is not None:
        formula += "; frozen weights take no gradient"
    if convention.recompute and forwards:
        part = f" of {round(forwards * model.layers)} of {model.layers} blocks" if forwards != 1 else ""
        formula += f"; the forward{part} recomputed"
    elif convention.recompute:
        formula += f"; {'only element-wise work' if workload.gradient_checkpointing else 'nothing'} recomputed"
    left_out += [] if model.counted is None else model.counted.caveats
    if workload.padded:
        left_out.append(PADDED)
    elif attention == "none":
        (full,) = attention_terms(model, workload.seq_len, "full")
        left_out.append(f"attention scores and values: {_product(full)}")
    elif attention == "causal" or (attention not in ALL_PAIRS and not model.windowed_layers):
        (half,) = attention_terms(model, workload.seq_len, "causal")
        left_out.append(f"the masked half of attention, where a kernel computes it: {_product(half)}")
    elif attention not in ALL_PAIRS:
        left_out.append("masked scores, where a kernel computes them")
    if weights == "nominal" and adapters is not None:
        left_out.append(f"adapters: 6 x {adapters:,}")
    if workload.gradient_checkpointing and workload.recomputed_share and not convention.recompute:
        left_out.append("the forward recomputed by gradient checkpointing")
    flops = sum(each * size for each, size, _ in parts) + sum(map(prod, terms))
    return ConventionFlops(flops=flops, formula=formula, leaves_out=(*left_out, ELEMENTWISE))


def attention_terms(model: Model, seq_len: int, attention: Attention, passes: float = 3) -> list[Term]:
    """FLOPs per token of attention as products of factor, layers, W and keys; `passes`: 3 with the backward pass."""
    if model.counted is not None:
        share = 1 if attention in ALL_PAIRS else 0.5
        return [(passes * share, model.counted.attention_flops, seq_len)] if attention != "none" else []
    both = model.attention_heads * (model.query_width + model.value_width)
    width = both // 2 if both % 2 == 0 else both / 2
    layers, window = model.layers + model.multi_token_layers, model.window
    if attention == "none":
        return []
    if attention in ALL_PAIRS:
        return [(4 * passes, layers, width if attention == "full" else model.hidden_size, seq_len)]
    windowed = model.windowed_layers
    if attention == "causal" or window is None or window >= seq_len or not windowed:
        return [(2 * passes, layers, width, seq_len)]
    seen = window / 2 if attention == "half_windows" else window * (1 - window / (2 * seq_len))
    terms: list[Term] = [(2 * passes, layers - windowed, width, seq_len), (4 * passes, windowed, width, seen)]
    return [term for term in terms if term[1]]


def forward_flops(model: Model, seq_len: int, attention: Attention) -> dict[str, float]:
    """FLOPs per token of a forward pass by component: matrix products and attention, no element-wise work."""
    scores = sum(map(prod, attention_terms(model, seq_len, attention, 1)))
    if model.counted is not None:
        return {"attention": scores, "other products": model.counted.forward_flops}
    count = count_parameters(model)
    components = {
        "attention projections": count.attention,
        "feed-forward": count.mlp,
        "experts": count.experts - count.idle_experts,
        "shared experts": count.shared_experts,
        "router": count.router,
        "multi-token projection": count.multi_token,
        "head": (count.head or count.input_embedding) + count.repeated_head,
    }
    flops: dict[str, float] = {name: 2 * parameters for name, parameters in components.items() if parameters}
    return {"attention projections": flops.pop("attention projections"), "attention": scores, **flops}


def _product(term: Term) -> str:
    factor, *rest = term
    return " x ".join(
        [f"{factor:g}", *(f"{int(value):,}" if value == int(value) else f"{value:,.10g}" for value in rest)]
    )
