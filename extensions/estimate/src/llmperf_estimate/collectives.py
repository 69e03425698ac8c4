"""Communication of one rank by formulas, from its layout.

Tensor parallelism: Shoeybi et al. 2019, "Megatron-LM", section 3, and with divided sequences Korthikanti et al. 2022,
section 4.2. Sharding: Rajbhandari et al. 2020, "ZeRO", section 7. Pipelines send the stream to their neighbours. Expert
parallelism sends each token to its experts and back (Lepikhin et al. 2020, "GShard", section 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from llmperf.types.layout import Layout, RankDimension
from llmperf.types.tracing import Collective, Phase, TracedCollective

from llmperf_estimate.rank_sizes import RankSizes

LABEL_BYTES = 12
"""Largest logit, sum of exponentials and the label's logit of a token, which tensor-parallel ranks share."""


def analytic_collectives(sizes: RankSizes, rank: int) -> tuple[TracedCollective, ...]:
    """All communications of one rank; none if it is alone."""
    if sizes.plan.layout.world_size == 1:
        return ()
    parts = (part(sizes, rank) for part in (_tensor, _context, _pipeline, _experts, _gradients))
    return tuple(collective for part in parts for collective in part if len(collective.ranks) > 1)


def ranks_along(layout: Layout, rank: int, dimension: RankDimension) -> tuple[int, ...]:
    """The ranks that differ from this one in one dimension only, this one included, in order."""
    stride = 1
    for faster in layout.rank_order:
        if faster == dimension:
            break
        stride *= layout.degrees[faster]
    first = rank - layout.coordinate(rank, dimension) * stride
    return tuple(first + index * stride for index in range(layout.degrees[dimension]))


def _tensor(sizes: RankSizes, rank: int) -> Iterator[TracedCollective]:
    """Sums after attention and feed-forward, and of their inputs' gradients; gathered and scattered if divided."""
    ranks = ranks_along(sizes.plan.layout, rank, "tensor")
    again = sizes.recomputed_blocks if sizes.plan.spec.tuning.recompute == "block" else 0
    ends = int(sizes.first), int(sizes.last)
    size = sizes.compute_bytes * sizes.hidden * sizes.tokens
    counts: tuple[tuple[Phase, int], ...] = (
        ("forward", 2 * sizes.blocks + ends[0]),
        ("backward", 2 * sizes.blocks + 2 * again + ends[1]),
    )
    divided: tuple[Collective, ...] = ("all_gather", "reduce_scatter")
    patterns: tuple[Collective, ...] = divided if sizes.sequence_parts > 1 else ("all_reduce",)
    for phase, times in counts:
        for pattern in patterns:
            yield _collective(pattern, size, ranks, phase, per_micro_batch=times)
    if sizes.last:
        yield _collective("all_reduce", LABEL_BYTES * sizes.tokens, ranks, "forward", per_micro_batch=1)


def _context(sizes: RankSizes, rank: int) -> Iterator[TracedCollective]:
    """Keys and values of the whole sequence in each block, and their gradients."""
    ranks = ranks_along(sizes.plan.layout, rank, "context")
    widths = sizes.key_width + sizes.value_width
    size = sizes.compute_bytes * widths * sizes.micro_batch * sizes.context_len
    yield _collective("all_gather", size, ranks, "forward", per_micro_batch=sizes.blocks)
    yield _collective("reduce_scatter", size, ranks, "backward", per_micro_batch=sizes.blocks)


def _pipeline(sizes: RankSizes, rank: int) -> Iterator[TracedCollective]:
    """The residual stream to the next stage and its gradient to the one before."""
    stages = ranks_along(sizes.plan.layout, rank, "pipeline")
    size = sizes.compute_bytes * sizes.hidden * sizes.tokens // sizes.sequence_parts
    phases: tuple[Phase, ...] = ("forward", "backward")
    for neighbour in (sizes.stage - 1, sizes.stage + 1):
        if 0 <= neighbour < len(stages):
            for phase in phases:
                yield _collective("send_receive", size, (rank, stages[neighbour]), phase, per_micro_batch=1)


def _experts(sizes: RankSizes, rank: int) -> Iterator[TracedCollective]:
    """Tokens to the ranks of their experts and back in each mixture, their gradients, and the experts' gradients."""
    ways = sizes.plan.layout.expert_parallel
    if ways == 1 or not sizes.mixture:
        return
    mixtures = sizes.kinds[-1]
    again = mixtures.recomputed_blocks if sizes.plan.spec.tuning.recompute == "block" else 0
    size = math.ceil(sizes.expert_load * sizes.routed * sizes.compute_bytes * sizes.hidden * sizes.tokens)
    layout = sizes.plan.layout  # of one part of the model: the ranks with other data
    along = (ranks_along(layout, other, "context") for other in ranks_along(layout, rank, "data"))
    data = sorted(other for ranks in along for other in ranks)
    place = data.index(rank)
    ranks = tuple(data[place // ways * ways :][:ways])
    counts: tuple[tuple[Phase, int], ...] = (
        ("forward", 2 * mixtures.blocks),
        ("backward", 2 * mixtures.blocks + 2 * again),
    )
    for phase, times in counts:
        yield _collective("all_to_all", size, ranks, phase, per_micro_batch=times)
    if sizes.whole_trained:
        gradients = _gradient_element(sizes) * sizes.whole_trained
        yield _collective("all_reduce", gradients, tuple(data[place % ways :: ways]), "backward", per_step=1)


def _gradient_element(sizes: RankSizes) -> int:
    """Bytes of an element of a gradient as it is summed over ranks."""
    sums_in_fp32 = sizes.plan.spec.tuning.accumulation_dtype == "fp32"
    in_fp32 = sums_in_fp32 or sizes.frozen  # adapters are float32 beside frozen weights of 16 bits
    return max(4 if in_fp32 else 0, sizes.weight_bytes)


def _gradients(sizes: RankSizes, rank: int) -> Iterator[TracedCollective]:
    """Gradients of all data-parallel ranks, by micro batch from stage 2 on, and weights where they are sharded."""
    layout = sizes.plan.layout
    ranks = ranks_along(layout, rank, "data")
    trained = sizes.trained - sizes.whole_trained
    gradients = _gradient_element(sizes) * trained
    if layout.sharding_stage == 0:
        yield _collective("all_reduce", gradients, ranks, "backward", overlaps=True, per_step=1)
        return
    degree = min(layout.sharding_degree, len(ranks))
    shards = ranks[ranks.index(rank) // degree * degree :][:degree]
    replicas = tuple(other for other in ranks if (other - rank) % max(len(shards), 1) == 0)
    if layout.sharding_stage == 1:
        yield _collective("reduce_scatter", gradients, shards, "backward", per_step=1)
    else:
        overlaps = layout.sharding_stage == 3
        yield _collective("reduce_scatter", gradients, shards, "backward", overlaps=overlaps, per_micro_batch=1)
    if len(shards) < len(ranks):
        yield _collective("all_reduce", gradients // len(shards), replicas, "backward", per_step=1)
    if layout.sharding_stage < 3:
        yield _collective("all_gather", sizes.weight_bytes * trained, shards, "update", per_step=1)
        return
    weights = sizes.weight_bytes * (sizes.parameters - sizes.whole_experts)
    phases: tuple[Phase, ...] = ("forward", "backward")
    for phase in phases:
        yield _collective("all_gather", weights, shards, phase, overlaps=True, per_micro_batch=1)


def _collective(
    collective: Collective, size: int, ranks: tuple[int, ...], phase: Phase, *, overlaps: bool = False, **times: int
) -> TracedCollective:
    return TracedCollective(collective=collective, bytes=size, ranks=ranks, phase=phase, overlaps=overlaps, **times)
