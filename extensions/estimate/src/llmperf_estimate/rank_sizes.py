"""The sizes of one rank's part of a model, on which the formulas of the analytic trace depend."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from llmperf.accounting import (
    attention_parameters,
    lora_parameters,
    mixture_layers,
    precision_recipe,
    shared_width,
    stage_experts,
    stage_parameters,
)
from llmperf.types.models import Model
from llmperf.types.plan import Plan

MOST_LAYERS = 128
"""Layers whose tables are computed; further ones are taken to be like these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSizes:
    """One rank of a pipeline stage, in one micro batch."""

    plan: Plan
    """The plan of the run."""
    stage: int
    """Pipeline stage of the rank, from 0."""
    first: bool
    """The stage has the embedding."""
    last: bool
    """The stage has the head and the loss."""
    blocks: int
    """Transformer blocks of the stage."""
    recomputed_blocks: int
    """Those whose activations are computed again during the backward pass."""
    in_flight: int
    """Micro batches whose activations the stage holds at once."""
    micro_batch: int
    """Sequences."""
    seq_len: int
    """Tokens of a sequence on this rank."""
    context_len: int
    """Tokens of a whole sequence: the keys that a query may see."""
    hidden: int
    """Width of the residual stream."""
    query_width: int
    """All query heads of the rank together."""
    key_width: int
    """All key heads of the rank together."""
    value_width: int
    """The values of these heads together."""
    output_width: int
    """Weighted values of all query heads of the rank together."""
    heads: int
    """Query heads."""
    windowed_blocks: int
    """Blocks whose attention has a window."""
    dense_blocks: int
    """Blocks with a dense feed-forward layer; the first ones."""
    mixture: bool
    """The others, which `inner` is of, have a mixture of experts; see `kinds`."""
    inner: int
    """Feed-forward columns that a token passes: of a mixture those of its experts and of the shared ones."""
    vocabulary: int
    """Rows of the embedding and the head."""
    sequence_parts: int
    """Ranks that divide the sequence in norms and in the residual stream."""
    compute_bytes: int
    """Bytes of an element in matrix products."""
    weight_bytes: int
    """Bytes of an element of a weight."""
    experts: int
    """Routed experts of a layer on this rank; 0 without a mixture."""
    expert_load: float
    """Tokens that the busiest rank of those that share experts computes / mean; 1 if each has all experts."""
    parameters: int
    """On this rank, before sharding."""
    whole_experts: int
    """Parameters of routed experts that this rank holds whole, since expert-parallel ranks share them."""
    trained: int
    """Trained parameters among them."""
    adapter_targets: tuple[str, ...]
    """Projections with adapters; empty if all weights are trained."""

    @property
    def tokens(self) -> int:
        """Tokens of a micro batch on this rank."""
        return self.micro_batch * self.seq_len

    @property
    def kept_blocks(self) -> int:
        """Blocks whose activations are kept."""
        return self.blocks - self.recomputed_blocks

    @property
    def casts(self) -> bool:
        """Weights are held in float32 and cast to 16 bits where they are used."""
        return self.weight_bytes > self.compute_bytes

    @property
    def frozen(self) -> bool:
        """Only adapters are trained."""
        return bool(self.adapter_targets)

    @property
    def model(self) -> Model:
        """The model of the plan."""
        return self.plan.spec.model

    @property
    def attention_widths(self) -> int:
        """Queries, keys, values and weighted values of one token."""
        return self.query_width + self.key_width + self.value_width + self.output_width

    @property
    def routed(self) -> int:
        """Experts that a token of these blocks passes; 0 in dense blocks."""
        return self.model.mixture.top_k if self.mixture and self.model.mixture is not None else 0

    @property
    def whole_trained(self) -> int:
        """Trained parameters of experts that this rank holds whole."""
        return 0 if self.frozen else self.whole_experts

    @property
    def kinds(self) -> tuple[RankSizes, ...]:
        """These sizes for the blocks with dense layers and for those with mixtures, where the stage has both."""
        if not self.mixture or not self.dense_blocks:
            return (self,)
        ways, dense = self.plan.layout.tensor_parallel, self.dense_blocks
        every = self.plan.spec.tuning.recompute_every
        again = -(-dense // every) if self.recomputed_blocks else 0
        windowed = min(dense, self.windowed_blocks)
        first = replace(
            self,
            blocks=dense,
            recomputed_blocks=again,
            windowed_blocks=windowed,
            mixture=False,
            inner=-(-self.model.intermediate_size // ways),
        )
        others = replace(
            self,
            blocks=self.blocks - dense,
            recomputed_blocks=self.recomputed_blocks - again,
            windowed_blocks=self.windowed_blocks - windowed,
            dense_blocks=0,
        )
        return first, others

    @property
    def block_matrices(self) -> int:
        """Parameters of one block's matrix products on this rank, all of its experts included."""
        mixture, ways = self.model.mixture, self.plan.layout.tensor_parallel
        attention = -(-attention_parameters(self.model) // ways)
        if mixture is None or not self.mixture:
            return attention + 3 * self.hidden * self.inner
        columns = -(-(self.experts * mixture.expert_width + shared_width(self.model)) // ways)
        return attention + self.hidden * (3 * columns + mixture.experts)

    @property
    def sharding(self) -> int:
        """Ranks that share optimiser states."""
        return self.plan.layout.sharding_degree if self.plan.layout.sharding_stage else 1


def rank_sizes(plan: Plan, rank: int) -> RankSizes:
    """The sizes of one rank of a plan."""
    spec, layout, batch = plan.spec, plan.layout, plan.batch
    model, tuning, lora = spec.model, spec.tuning, spec.contract.lora
    stage, stages, ways = layout.coordinate(rank, "pipeline"), layout.pipeline_parallel, layout.tensor_parallel
    recipe = precision_recipe(spec.contract.precision)
    compute = recipe.rest_bytes
    weight = 4 if plan.worker.weights_in_fp32 and lora is None else compute
    blocks = model.layers // stages
    dense = max(0, min(blocks, model.dense_layers - stage * blocks))
    windowed = round(blocks * model.windowed_layers / model.layers)
    if stage == stages - 1:
        blocks += model.multi_token_layers
        dense += model.multi_token_layers if model.mixture is None else 0
    keys = model.attention_heads if model.latent is not None else model.kv_heads
    inner, experts, load = model.intermediate_size, 0, 1.0
    if model.mixture is not None and dense < blocks:
        experts, load = -(-model.mixture.experts // layout.expert_parallel), expert_load(plan)
        inner = math.ceil(load * model.mixture.top_k * model.mixture.expert_width) + shared_width(model)
    all_experts = stage_experts(model, stages)[stage] if layout.expert_parallel > 1 else 0
    whole_experts = -(-all_experts // (ways * layout.expert_parallel))
    parameters = -(-(stage_parameters(model, stages)[stage] - all_experts) // ways) + whole_experts
    trained = parameters if lora is None else -(-lora_parameters(model, lora) // stages)
    return RankSizes(
        plan=plan,
        stage=stage,
        first=stage == 0,
        last=stage == stages - 1,
        blocks=blocks,
        recomputed_blocks=-(-blocks // tuning.recompute_every) if tuning.gradient_checkpointing else 0,
        in_flight=min(batch.gradient_accumulation, stages - stage),
        micro_batch=batch.micro_batch,
        seq_len=-(-batch.seq_len // layout.context_parallel),
        context_len=batch.seq_len,
        hidden=model.hidden_size,
        query_width=model.attention_heads * model.query_width // ways,
        key_width=keys * model.query_width // ways,
        value_width=keys * model.value_width // ways,
        output_width=model.attention_heads * model.value_width // ways,
        heads=model.attention_heads // ways,
        windowed_blocks=windowed,
        dense_blocks=dense,
        mixture=dense < blocks,
        inner=-(-inner // ways),
        vocabulary=-(-model.vocab_size // ways),
        sequence_parts=ways if layout.sequence_parallel else 1,
        compute_bytes=compute,
        weight_bytes=weight,
        experts=experts,
        expert_load=load,
        whole_experts=whole_experts,
        parameters=parameters + (0 if lora is None else trained),
        trained=trained,
        adapter_targets=() if lora is None else tuple(dict.fromkeys(lora.target_modules)),
    )


def expert_load(plan: Plan) -> float:
    """Tokens that the busiest expert-parallel rank computes / mean over these ranks, on average over the layers."""
    contract, ways = plan.spec.contract, plan.layout.expert_parallel
    if plan.spec.model.mixture is None or contract.routing != "skewed" or ways == 1:
        return 1.0
    return _busiest(plan.spec.model, ways, contract.seed, contract.routing_skew)


@lru_cache(maxsize=16)
def _busiest(model: Model, ways: int, seed: int, skew: float) -> float:
    import numpy as np
    from llmperf import routing_table

    layers = mixture_layers(model)[:MOST_LAYERS]
    factors = []
    for layer in layers:
        table = routing_table(seed, model, layer, "skewed", skew)
        loads = np.bincount(table.ravel(), minlength=model.mixture.experts if model.mixture else 0).tolist()
        each = -(-len(loads) // ways)
        parts = [sum(loads[first : first + each]) for first in range(0, len(loads), each)]
        factors.append(max(parts) * ways / sum(loads))
    return sum(factors) / len(factors) if factors else 1.0


def load_notes(plan: Plan) -> tuple[str, ...]:
    """The load of experts that the estimate assumes; none for a dense model."""
    contract, ways = plan.spec.contract, plan.layout.expert_parallel
    if plan.spec.model.mixture is None:
        return ()
    if contract.routing == "learned":
        assumed = "taken as equal, since what the router learns is not known before the run"
    elif contract.routing == "balanced":
        assumed = "equal, by balanced routing"
    elif ways == 1:
        assumed = "each rank computes all experts, so that only kernels for uneven groups could tell"
    else:
        load = f"{expert_load(plan):.2f} x the mean of tokens"
        assumed = f"the busiest of {ways} ranks has {load}, on average over the layers"
    skewed = f"skewed by exponent {contract.routing_skew:g}; " if contract.routing == "skewed" else ""
    return (f"load of experts: {skewed}{assumed}",)
