"""Activations that a transformer block keeps for its backward pass, and what its backward pass holds beside them.

Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4, count a GPT block:
here for RMSNorm, rotary positions, grouped keys and SwiGLU, tensor by tensor, and without dropout. A mixture keeps the
columns of the experts that a token passes, and its input and output once for each of them. Bytes of one micro batch on
one rank.
"""

from __future__ import annotations

import math

from llmperf.estimating.rank_sizes import RankSizes
from llmperf.types.spec import Tuning

FUSED_ATTENTION = ("flash", "efficient", "cudnn", "flex", "sdpa", "auto")
"""`tuning.attention` whose kernels keep no scores."""
SINGLE = 4
"""Bytes of an element in float32."""


def runs_fused(sizes: RankSizes, name: str) -> bool:
    """Whether an operation is one kernel, as planned."""
    plan = sizes.plan
    return name in plan.worker.fused_ops or plan.spec.tuning.compile


def block_bytes(sizes: RankSizes) -> int:
    """Activations of a block that is not recomputed."""
    norm_input = sizes.compute_bytes * sizes.hidden * sizes.tokens // sizes.sequence_parts
    norms = sizes.model.norms_per_block * (norm_input + norm_bytes(sizes))
    common = norms + _attention(sizes) + _routed(sizes)
    if sizes.frozen:
        return common + _feed_forward(sizes) + _adapters(sizes)
    return common + _projected(sizes) + _feed_forward(sizes)


def checkpoint_bytes(sizes: RankSizes) -> int:
    """What a recomputed block keeps: its input, and with `recompute=operations` results of products and attention."""
    kept = sizes.compute_bytes * sizes.hidden * sizes.tokens // sizes.sequence_parts
    if sizes.plan.spec.tuning.recompute == "block":
        return kept
    products = sizes.attention_widths + 2 * sizes.inner + (1 + max(1, sizes.routed)) * sizes.hidden
    return kept + sizes.compute_bytes * products * sizes.tokens


def norm_bytes(sizes: RankSizes) -> int:
    """What one norm keeps beside its input.

    Reciprocal roots; as separate operations its input in float32 instead, and the scaled one if its weight is trained.
    """
    share = sizes.tokens // sizes.sequence_parts
    if runs_fused(sizes, "rms_norm"):
        return SINGLE * share
    wide = SINGLE - sizes.compute_bytes
    scaled = 0 if sizes.frozen else sizes.compute_bytes
    return (SINGLE + (wide + scaled) * sizes.hidden) * share


def _projected(sizes: RankSizes) -> int:
    """Inputs of the projections: of each its own, if it copies it."""
    own = sizes.plan.worker.input_copies and sizes.plan.layout.tensor_parallel > 1
    copies = (1 if sizes.model.family == "baichuan" else 3) + 2 if own else 2
    return copies * sizes.compute_bytes * sizes.hidden * sizes.tokens // sizes.sequence_parts


def _attention(sizes: RankSizes) -> int:
    """Queries, keys, values, the output, and what the kernel keeps of the scores."""
    widths, latent = sizes.attention_widths, sizes.model.latent
    if sizes.model.qk_norm != "none":
        widths += sizes.query_width + sizes.key_width
    if latent is not None:
        widths += 2 * ((latent.q_rank or 0) + latent.kv_rank)
    return sizes.compute_bytes * widths * sizes.tokens + _kept_scores(sizes)


def _routed(sizes: RankSizes) -> int:
    """Inputs of experts, gathered by expert on the rank that has it, and their outputs before they are weighted."""
    return math.ceil((1 + sizes.expert_load) * sizes.routed * sizes.compute_bytes * sizes.hidden * sizes.tokens)


def _kept_scores(sizes: RankSizes) -> int:
    if attention_is_fused(sizes.plan.spec.tuning):
        return SINGLE * sizes.heads * sizes.tokens
    copy = sizes.compute_bytes if sizes.compute_bytes < SINGLE else 0
    return (SINGLE + copy) * scores(sizes)


def attention_is_fused(tuning: Tuning) -> bool:
    """Whether scores are never held."""
    return tuning.attention in FUSED_ATTENTION


def scores(sizes: RankSizes) -> int:
    """Elements of the scores of a micro batch."""
    return sizes.heads * sizes.tokens * sizes.context_len


def _feed_forward(sizes: RankSizes) -> int:
    """Gate, up and their product, which frozen weights need not for their gradient; with separate operations more."""
    tensors = gate_steps(sizes) + (1 if sizes.frozen else 2)
    return tensors * sizes.compute_bytes * sizes.inner * sizes.tokens


def gate_steps(sizes: RankSizes) -> int:
    """Results of the gated activation that are kept: the last one alone if it is one kernel.

    Separate operations keep the activated gate too; the clamped activation of GPT-OSS, which has no kernel of its own,
    also the clamped gate, the clamped up plus 1, their product and the sigmoid.
    """
    if sizes.model.activation == "swiglu_clamped":
        return 1 if sizes.plan.spec.tuning.compile else 5
    return 1 if runs_fused(sizes, "swiglu") else 2


def _adapters(sizes: RankSizes) -> int:
    """For each adapter its input after dropout, and the mask of the dropout."""
    lora = sizes.plan.spec.contract.lora
    mask = 1 if lora is not None and lora.dropout else 0
    widths = sum(sizes.inner if name == "down_proj" else sizes.hidden for name in sizes.adapter_targets)
    return (sizes.compute_bytes + mask) * widths * sizes.tokens


def backward_bytes(sizes: RankSizes) -> int:
    """The most that the backward pass of one block holds beside the activations that it has not used yet."""
    stream = 2 * sizes.compute_bytes * sizes.hidden * sizes.tokens // sizes.sequence_parts
    feed_forward = 2 * sizes.compute_bytes * sizes.inner * sizes.tokens + _routed(sizes)
    return stream + max(feed_forward, _attention_backward(sizes))


def _attention_backward(sizes: RankSizes) -> int:
    """Gradients of queries, keys, values and output; as separate operations also those of the scores, in float32."""
    gradients = sizes.compute_bytes * sizes.attention_widths * sizes.tokens
    return gradients if attention_is_fused(sizes.plan.spec.tuning) else gradients + 2 * SINGLE * scores(sizes)
