"""Memory of one rank by formulas: model states by ZeRO's arithmetic, activations block by block, and the loss.

States: Rajbhandari et al. 2020, "ZeRO", section 3.1. Activations: Korthikanti et al. 2022, "Reducing Activation
Recomputation in Large Transformer Models", section 4, count a GPT block; here for RMSNorm, rotary positions, grouped
keys and SwiGLU, tensor by tensor, and without dropout. A mixture keeps the columns of the experts that a token passes,
and its input and output once for each of them. The peak is the largest of four moments of a step that is not the first:
the loss, the head's and the first block's backward pass, and the update.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llmperf.accounting import precision_recipe
from llmperf.types.flop_counts import DTYPE_BYTES
from llmperf.types.spec import Tuning
from llmperf.types.tracing import MemoryKind, Phase, TracedMemory

from llmperf_estimate.rank_sizes import RankSizes

FUSED_ATTENTION = ("flash", "efficient", "cudnn", "flex", "sdpa", "auto")
"""`tuning.attention` whose kernels keep no scores."""
SINGLE = 4
"""Bytes of an element in float32."""
Held = Mapping[MemoryKind, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Tensors held at one moment of a step."""

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
    """Bytes of parameters that are sharded except `whole` ones, at so many bytes for each element."""
    return math.ceil((parameters - whole) * element / sizes.sharding) + whole * element


def moments(sizes: RankSizes, between: Mapping[MemoryKind, int]) -> Iterator[Moment]:
    """The moments at which memory may be highest."""
    gradients = gradient_bytes(sizes)
    earlier = gradients if sizes.plan.batch.gradient_accumulation > 1 else between["gradients"]
    kinds = (
        (kind.kept_blocks * block_bytes(kind), kind.recomputed_blocks * checkpoint_bytes(kind)) for kind in sizes.kinds
    )
    one_micro_batch = sum(map(sum, kinds))
    activations = one_micro_batch * sizes.in_flight
    casts, gathered = _cast_weights(sizes), _gathered_weights(sizes)

    def moment(phase: Phase, name: str, **held: int) -> Moment:
        buffers = 0 if phase == "update" else sizes.plan.worker.buffer_bytes + gathered
        return Moment(phase=phase, name=name, held={**between, "communication": buffers, **held})  # type: ignore[dict-item]

    if sizes.last:
        # what the last norm keeps, inputs of it and of the head, and the head's normalised rows
        matrix = sizes.compute_bytes * sizes.vocabulary * sizes.hidden
        head = 2 * sizes.compute_bytes * sizes.hidden * sizes.tokens // sizes.sequence_parts + norm_bytes(sizes)
        head += matrix if sizes.model.normalized_head else 0
        # the gradient of the logits, and of the head's weights before it is added; four more to normalise its rows
        backward = sizes.compute_bytes * sizes.tokens * sizes.vocabulary
        backward += 0 if sizes.frozen else matrix * (4 if sizes.model.normalized_head else 1)
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
            temporaries=casts + backward,
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
        activations=one_micro_batch * (sizes.in_flight - 1) + block_bytes(first),
        temporaries=backward_bytes(first),
    )
    worker, whole = sizes.plan.worker, sizes.whole_trained
    shard = (sizes.trained - whole) / sizes.sharding + whole
    at_once = shard if worker.update_parameters is None else min(shard, worker.update_parameters)
    update = 0 if "optimizer" in worker.offloaded else math.ceil(worker.update_bytes_per_parameter * at_once)
    yield moment("update", "optimizer", gradients=gradients, temporaries=update)


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


def runs_fused(sizes: RankSizes, name: str) -> bool:
    """Check whether an operation is one kernel, as planned."""
    plan = sizes.plan
    return name in plan.worker.fused_ops or plan.spec.tuning.compile


def block_bytes(sizes: RankSizes) -> int:
    """Activations of a block that is not recomputed."""
    norm_input = sizes.compute_bytes * sizes.hidden * sizes.tokens // sizes.sequence_parts
    norms = sizes.model.norms_per_block * (norm_input + norm_bytes(sizes))
    common = norms + _attention(sizes) + _routed(sizes)
    # gate, up and their product, which frozen weights need not for their gradient; with separate operations more
    tensors = gate_steps(sizes) + (1 if sizes.frozen else 2)
    common += tensors * sizes.compute_bytes * sizes.inner * sizes.tokens
    if sizes.frozen:  # for each adapter its input after dropout, and the mask of the dropout
        lora = sizes.plan.spec.contract.lora
        mask = 1 if lora is not None and lora.dropout else 0
        widths = sum(sizes.inner if name == "down_proj" else sizes.hidden for name in sizes.adapter_targets)
        return common + (sizes.compute_bytes + mask) * widths * sizes.tokens
    # inputs of the projections: of each its own, if it copies it
    own = sizes.plan.worker.input_copies and sizes.plan.layout.tensor_parallel > 1
    copies = (1 if sizes.model.family == "baichuan" else 3) + 2 if own else 2
    return common + copies * sizes.compute_bytes * sizes.hidden * sizes.tokens // sizes.sequence_parts


def checkpoint_bytes(sizes: RankSizes) -> int:
    """Tensors that a recomputed block keeps: its input, or results of products and attention (`operations`)."""
    kept = sizes.compute_bytes * sizes.hidden * sizes.tokens // sizes.sequence_parts
    if sizes.plan.spec.tuning.recompute == "block":
        return kept
    products = sizes.attention_widths + 2 * sizes.inner + (1 + max(1, sizes.routed)) * sizes.hidden
    return kept + sizes.compute_bytes * products * sizes.tokens


def norm_bytes(sizes: RankSizes) -> int:
    """Tensors that one norm keeps beside its input: reciprocal roots, or as separate operations its float32 input."""
    share = sizes.tokens // sizes.sequence_parts
    if runs_fused(sizes, "rms_norm"):
        return SINGLE * share
    wide = SINGLE - sizes.compute_bytes
    scaled = 0 if sizes.frozen else sizes.compute_bytes
    return (SINGLE + (wide + scaled) * sizes.hidden) * share


def _attention(sizes: RankSizes) -> int:
    """Queries, keys, values, the output, and what the kernel keeps of the scores."""
    widths, latent = sizes.attention_widths, sizes.model.latent
    if sizes.model.qk_norm != "none":
        widths += sizes.query_width + sizes.key_width
    if latent is not None:
        widths += 2 * ((latent.q_rank or 0) + latent.kv_rank)
    if attention_is_fused(sizes.plan.spec.tuning):
        kept = SINGLE * sizes.heads * sizes.tokens
    else:
        kept = (SINGLE + (sizes.compute_bytes if sizes.compute_bytes < SINGLE else 0)) * scores(sizes)
    return sizes.compute_bytes * widths * sizes.tokens + kept


def _routed(sizes: RankSizes) -> int:
    """Inputs of experts, gathered by expert on the rank that has it, and their outputs before they are weighted."""
    return math.ceil((1 + sizes.expert_load) * sizes.routed * sizes.compute_bytes * sizes.hidden * sizes.tokens)


def attention_is_fused(tuning: Tuning) -> bool:
    """Check whether scores are never held."""
    return tuning.attention in FUSED_ATTENTION


def scores(sizes: RankSizes) -> int:
    """Elements of the scores of a micro batch."""
    return sizes.heads * sizes.tokens * sizes.context_len


def gate_steps(sizes: RankSizes) -> int:
    """Results of the gated activation that are kept: only the last of one kernel, more of separate operations."""
    if sizes.model.activation == "swiglu_clamped":
        return 1 if sizes.plan.spec.tuning.compile else 5
    return 1 if runs_fused(sizes, "swiglu") else 2


def backward_bytes(sizes: RankSizes) -> int:
    """The most that the backward pass of one block holds beside the activations that it has not used yet."""
    stream = 2 * sizes.compute_bytes * sizes.hidden * sizes.tokens // sizes.sequence_parts
    feed_forward = 2 * sizes.compute_bytes * sizes.inner * sizes.tokens + _routed(sizes)
    attention = sizes.compute_bytes * sizes.attention_widths * sizes.tokens  # gradients
    if not attention_is_fused(sizes.plan.spec.tuning):
        attention += 2 * SINGLE * scores(sizes)  # those of the scores, in float32
    return stream + max(feed_forward, attention)
