"""The load of experts: it adds up, and tokens were routed as the contract says."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from llmperf.accounting import MOST_EXPERTS, MOST_SKEW, mixture_layers
from llmperf.types import Contract, Model, Result, Text, Violation
from llmperf.validation import deviates, differs, figure, rule

MOST_LAYERS = 256
"""Layers of which the tables are computed; published models have at most 126."""
MOST_CHOICES = 32
"""Experts of a token for which the tables are computed; published models have at most 10."""


@rule("LP230", "error", "The tokens of a layer's experts add up to tokens x top-k")
def expert_tokens(result: Result) -> Iterator[Violation]:
    mixture, batch = result.model.mixture, result.batch
    if not result.expert_load:
        return
    if mixture is None:
        message = Text("expected none for the dense model {}, found {}", result.model.name, len(result.expert_load))
        yield "/expert_load", message
        return
    layers, loads = mixture_layers(result.model), result.expert_load
    if len(loads) != len(layers) or any(load.layer != layer for load, layer in zip(loads, layers, strict=True)):
        message = Text("expected each of {} layers with experts, in order; found {} layers", len(layers), len(loads))
        yield "/expert_load", message
    factors = (result.metrics.measured_steps, batch.tokens_per_step, mixture.top_k)
    expected, because = prod(factors), Text("{} steps x {} tokens x top-k {}", *factors)
    for index, load in enumerate(result.expert_load):
        path = f"/expert_load/{index}/tokens"
        yield from differs(path, len(load.tokens), mixture.experts, Text("experts of a layer"))
        if result.contract.packing == "packed":
            yield from differs(path, sum(load.tokens), expected, because)
        elif sum(load.tokens) > expected:
            yield path, Text("expected at most {} ({}), found {}", expected, because, sum(load.tokens))


@rule("LP231", "error", "The imbalance of a layer is the most tokens of an expert / the mean")
def imbalance(result: Result) -> Iterator[Violation]:
    for index, load in enumerate(result.expert_load):
        if load.imbalance is not None and any(load.tokens):
            most, mean = max(load.tokens), sum(load.tokens) / len(load.tokens)
            because = Text("{} / mean {}", most, figure(mean))
            yield from deviates(f"/expert_load/{index}/imbalance", load.imbalance, most / mean, because)


@rule("LP232", "error", "Balanced and skewed routing take the experts of their tables")
def routed_by_table(result: Result) -> Iterator[Violation]:
    contract, model = result.contract, result.model
    mixture = model.mixture
    if mixture is None or mixture.top_k > min(MOST_CHOICES, mixture.experts) or mixture.experts > MOST_EXPERTS:
        return
    if contract.packing != "packed" or contract.routing == "learned" or not 0 <= contract.routing_skew < MOST_SKEW:
        return
    sequences = result.metrics.measured_steps * result.batch.global_batch
    known = mixture_layers(model)
    for index, load in enumerate(result.expert_load[:MOST_LAYERS]):
        if load.layer not in known or len(load.tokens) != mixture.experts:
            continue
        sequence = table_loads(contract, model, load.layer, result.batch.seq_len)
        wrong = [expert for expert, count in enumerate(sequence) if load.tokens[expert] != count * sequences]
        if wrong:
            expert, because = wrong[0], Text("{} sequences by the table of {} routing", sequences, contract.routing)
            expected, found = sequence[expert] * sequences, load.tokens[expert]
            yield f"/expert_load/{index}/tokens/{expert}", Text("expected {} ({}), found {}", expected, because, found)


def table_loads(contract: Contract, model: Model, layer: int, seq_len: int) -> tuple[int, ...]:
    """Tokens of one sequence that each expert of a layer takes by its table; errors as those of `routing_table`."""
    import numpy as np
    from llmperf import ROUTING_ROWS, routing_table

    table = routing_table(contract.seed, model, layer, contract.routing, contract.routing_skew)
    whole, rest = divmod(seq_len, ROUTING_ROWS)
    experts = model.mixture.experts if model.mixture is not None else 0
    counts = whole * np.bincount(table.ravel(), minlength=experts)
    return tuple((counts + np.bincount(table[:rest].ravel(), minlength=experts)).tolist())


@rule("LP233", "warning", "With balanced or skewed routing the tokens of experts are counted")
def routing_is_counted(result: Result) -> Iterator[Violation]:
    contract, mixture = result.contract, result.model.mixture
    if result.status == "complete" and mixture is not None and contract.routing != "learned" and not result.expert_load:
        yield "/expert_load", Text("expected the tokens of each expert ({} routing), found none", contract.routing)


@rule("LP234", "warning", "Learned routing does not give all experts equally many tokens")
def routing_is_learned(result: Result) -> Iterator[Violation]:
    mixture, loads = result.model.mixture, result.expert_load
    if mixture is None or result.contract.routing != "learned" or mixture.top_k >= mixture.experts or not loads:
        return
    if all(len(load.tokens) > 1 and any(load.tokens) and len(set(load.tokens)) == 1 for load in loads):
        because = Text("{} tokens in layer {}", loads[0].tokens[0], loads[0].layer)
        message = Text("expected unequal counts (learned routing), found equal ones in all layers ({})", because)
        yield "/expert_load", message
