"""Which load of experts an estimate assumes, and how much busier than the mean the busiest of their ranks is."""

from __future__ import annotations

from functools import lru_cache

from llmperf.accounting.parameters import mixture_layers
from llmperf.types.models import Model
from llmperf.types.plan import Plan

MOST_LAYERS = 128
"""Layers whose tables are computed; further ones are taken to be like these."""


def expert_load(plan: Plan) -> float:
    """Tokens that the busiest expert-parallel rank computes / mean over these ranks, on average over the layers.

    Neighbouring experts are on one rank. Every layer waits for its busiest rank. 1 for balanced and learned routing.
    """
    contract, ways = plan.spec.contract, plan.layout.expert_parallel
    if plan.spec.model.mixture is None or contract.routing != "skewed" or ways == 1:
        return 1.0
    return _busiest(plan.spec.model, ways, contract.seed, contract.routing_skew)


@lru_cache(maxsize=16)
def _busiest(model: Model, ways: int, seed: int, skew: float) -> float:
    from llmperf.accounting.routing import ROUTING_ROWS
    from llmperf.tokens.routing import table_loads

    layers = mixture_layers(model)[:MOST_LAYERS]
    factors = []
    for layer in layers:
        loads = table_loads(seed, model, layer, "skewed", skew, ROUTING_ROWS)
        each = -(-len(loads) // ways)
        parts = [sum(loads[first : first + each]) for first in range(0, len(loads), each)]
        factors.append(max(parts) * ways / sum(loads))
    return sum(factors) / len(factors) if factors else 1.0


def load_notes(plan: Plan) -> tuple[str, ...]:
    """Which load of experts the estimate assumes; none for a dense model."""
    return () if plan.spec.model.mixture is None else (f"load of experts: {_assumed(plan)}",)


def _assumed(plan: Plan) -> str:
    contract, ways = plan.spec.contract, plan.layout.expert_parallel
    if contract.routing == "learned":
        return "taken as equal, since what the router learns is not known before the run"
    if contract.routing == "balanced":
        return "equal, by balanced routing"
    beginning = f"skewed by exponent {contract.routing_skew:g}"
    if ways == 1:
        return f"{beginning}; each rank computes all experts, so that only kernels for uneven groups could tell"
    load = f"{expert_load(plan):.2f} x the mean of tokens"
    return f"{beginning}; the busiest of {ways} ranks has {load}, on average over the layers"
