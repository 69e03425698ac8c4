"""Memory of one rank by formulas: model states by ZeRO's arithmetic, activations block by block, and the loss.

States: Rajbhandari et al. 2020, "ZeRO", section 3.1. Activations: `activations.py`. The peak is the largest of four
moments of a step that is not the first: the loss, the head's and the first block's backward pass, and the update.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llmperf.accounting.precisions import precision_recipe
from llmperf.estimating.activations import SINGLE, backward_bytes, block_bytes, checkpoint_bytes, norm_bytes, runs_fused
from llmperf.estimating.rank_sizes import RankSizes
from llmperf.types.precision import DTYPE_BYTES
from llmperf.types.tracing import MemoryKind, Phase, TracedMemory

Held = Mapping[MemoryKind, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is held at one moment of a step."""

    phase: Phase
    name: str
    held: Held

    @property
    def total(self) -> int:
        """In bytes."""
        return sum(self.held.values())


def analytic_memory(sizes: RankSizes) -> TracedMemory:
    """The memory of a rank."""
    between = states(sizes)
    peak = max(moments(sizes, between), key=lambda moment: moment.total)
    return TracedMemory(
        peak_bytes=peak.total,
        at_peak={kind: size for kind, size in peak.held.items() if size},
        phase=peak.phase,
        operation=peak.name,
        between_steps={kind: size for kind, size in between.items() if size},
    )


def states(sizes: RankSizes) -> dict[MemoryKind, int]:
    """Weights and optimiser states, which are held all the time; shards of gradients too at stage 3."""
    sharded, offloaded = sizes.plan.layout.sharding_stage == 3, sizes.plan.worker.offloaded
    weights = sizes.parameters * sizes.weight_bytes
    recipe = precision_recipe(sizes.plan.spec.contract.precision)
    in_fp32 = sizes.weight_bytes == SINGLE  # then there is no second copy
    masters = SINGLE if recipe.master_weights and not in_fp32 else 0
    moments = 2 * DTYPE_BYTES[recipe.optimizer_states]
    optimizer = _shard_bytes(sizes, sizes.trained, sizes.whole_trained, moments + masters)
    if sharded:
        weights = _shard_bytes(sizes, sizes.parameters, sizes.whole_experts, sizes.weight_bytes)
    return {
        "parameters": 0 if "parameters" in offloaded else weights,
        "optimizer": 0 if "optimizer" in offloaded else optimizer,
        "gradients": gradient_bytes(sizes) if sharded else 0,
    }


def gradient_bytes(sizes: RankSizes) -> int:
    """All gradients of a rank, as they are when the backward pass ends."""
    if "gradients" in sizes.plan.worker.offloaded:
        return 0
    element = sizes.weight_bytes
    if sizes.plan.spec.tuning.accumulation_dtype == "fp32":
        element = max(element, SINGLE)
    if sizes.plan.layout.sharding_stage >= 2:
        return _shard_bytes(sizes, sizes.trained, sizes.whole_trained, element)
    return sizes.trained * element


def _shard_bytes(sizes: RankSizes, parameters: int, whole: int, element: int) -> int:
    """Of parameters that are sharded except `whole` ones, at so many bytes for each element."""
    return math.ceil((parameters - whole) * element / sizes.sharding) + whole * element


def moments(sizes: RankSizes, between: Mapping[MemoryKind, int]) -> Iterator[Moment]:
    """The moments at which memory may be highest."""
    gradients = gradient_bytes(sizes)
    earlier = gradients if sizes.plan.batch.gradient_accumulation > 1 else between["gradients"]
    activations = kept_activations(sizes)
    casts, gathered = _cast_weights(sizes), _gathered_weights(sizes)

    def moment(phase: Phase, name: str, **held: int) -> Moment:
        buffers = 0 if phase == "update" else sizes.plan.worker.buffer_bytes + gathered
        return Moment(phase=phase, name=name, held={**between, "communication": buffers, **held})  # type: ignore[dict-item]

    if sizes.last:
        head = _head_activations(sizes)
        head_gradient = 0 if sizes.frozen else sizes.weight_bytes * sizes.vocabulary * sizes.hidden
        yield moment(
            "backward",
            "loss",
            gradients=earlier,
            activations=activations + head,
            logits=logits_bytes(sizes),
            temporaries=casts,
        )
        yield moment(
            "backward",
            "output projection",
            gradients=max(earlier, head_gradient),
            activations=activations + head,
            temporaries=casts + _head_backward(sizes),
        )
    first, last = sizes.kinds[0], sizes.kinds[-1]
    block = block_bytes(last) if last.recomputed_blocks else 0
    yield moment(
        "backward",
        "last transformer block",
        gradients=earlier,
        activations=activations,
        temporaries=casts + block + backward_bytes(last),
    )
    yield moment(
        "backward",
        "first transformer block",
        gradients=gradients,
        activations=_of_one_micro_batch(sizes) * (sizes.in_flight - 1) + block_bytes(first),
        temporaries=backward_bytes(first),
    )
    yield moment(
        "update",
        "optimizer",
        gradients=gradients,
        temporaries=_update_bytes(sizes),
    )


def _update_bytes(sizes: RankSizes) -> int:
    worker, whole = sizes.plan.worker, sizes.whole_trained
    shard = (sizes.trained - whole) / sizes.sharding + whole
    at_once = shard if worker.update_parameters is None else min(shard, worker.update_parameters)
    return 0 if "optimizer" in worker.offloaded else math.ceil(worker.update_bytes_per_parameter * at_once)


def kept_activations(sizes: RankSizes) -> int:
    """Activations of all micro batches that the stage holds at once, without head and loss."""
    return _of_one_micro_batch(sizes) * sizes.in_flight


def _of_one_micro_batch(sizes: RankSizes) -> int:
    return sum(
        kind.kept_blocks * block_bytes(kind) + kind.recomputed_blocks * checkpoint_bytes(kind) for kind in sizes.kinds
    )


def _head_activations(sizes: RankSizes) -> int:
    """What the last norm keeps, inputs of it and of the head, and the head's normalised rows."""
    stream = 2 * sizes.compute_bytes * sizes.hidden * sizes.tokens // sizes.sequence_parts
    return stream + norm_bytes(sizes) + (_head_matrix(sizes) if sizes.model.normalized_head else 0)


def _head_matrix(sizes: RankSizes) -> int:
    return sizes.compute_bytes * sizes.vocabulary * sizes.hidden


def _head_backward(sizes: RankSizes) -> int:
    """The gradient of the logits, and of the head's weights before it is added; four more to normalise its rows."""
    logits = sizes.compute_bytes * sizes.tokens * sizes.vocabulary
    if sizes.frozen:
        return logits
    return logits + _head_matrix(sizes) * (4 if sizes.model.normalized_head else 1)


def logits_bytes(sizes: RankSizes) -> int:
    """Logits, their softmax and its gradient in float32, when the backward pass of the loss ends."""
    elements = sizes.tokens * sizes.vocabulary
    if runs_fused(sizes, "cross_entropy"):
        return sizes.compute_bytes * elements
    parts = 2 if sizes.plan.layout.tensor_parallel > 1 else 3
    return (parts * SINGLE + sizes.compute_bytes) * elements


def _gathered_weights(sizes: RankSizes) -> int:
    """Weights of the blocks that are whole at once where they are sharded; a rank's own experts always are."""
    if sizes.plan.layout.sharding_stage < 3:
        return 0
    blocks = sizes.kinds[-1]
    own = blocks.whole_experts // blocks.blocks if blocks.blocks else 0
    return sizes.compute_bytes * min(sizes.plan.worker.gathered_blocks, blocks.blocks) * (blocks.block_matrices - own)


def _cast_weights(sizes: RankSizes) -> int:
    """16-bit copies of float32 weights of blocks that are not recomputed, and of the head."""
    if not sizes.casts:
        return 0
    head = sizes.vocabulary * sizes.hidden if sizes.last else 0
    return sizes.compute_bytes * (sum(kind.kept_blocks * kind.block_matrices for kind in sizes.kinds) + head)
