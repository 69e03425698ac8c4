"""Operations of one rank by formulas: matrix products by shape, attention, and what only moves memory.

A matrix product of `rows` x `inner` by `inner` x `columns` takes 2 x rows x columns x inner FLOPs; the gradients of its
input and weights take as many each (Kaplan et al. 2020, table 1). Attention: 4 x width x keys for each query, half
of it where a kernel leaves out the masked half, and 2.5 times as much backward, since kernels compute the scores again
(Dao 2023, FlashAttention-2, section 4.1). All else is counted in the bytes that its kernels read and write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

from llmperf.accounting import precision_recipe, shared_width
from llmperf.types.flop_counts import DTYPE_BYTES
from llmperf.types.tracing import Phase, TracedOperation

from llmperf_estimate.memory import SINGLE, attention_is_fused, gate_steps, runs_fused, scores
from llmperf_estimate.pieces import compute_dtype, linear, moves, product, projection_dtype
from llmperf_estimate.rank_sizes import RankSizes


def analytic_operations(sizes: RankSizes) -> tuple[TracedOperation, ...]:
    """All operations of one rank."""
    return tuple(
        operation
        for operation in (*chain.from_iterable(map(_blocks, sizes.kinds)), *_ends(sizes), *_update(sizes))
        if operation.per_micro_batch or operation.per_step
    )


def _blocks(sizes: RankSizes) -> Iterator[TracedOperation]:
    """Forward and backward pass of all blocks, with what is computed again."""
    tuning, blocks = sizes.plan.spec.tuning, sizes.blocks
    again = sizes.recomputed_blocks
    products_again = again if tuning.recompute == "block" else 0
    for outputs, inputs, times in _projections(sizes):
        yield from linear(sizes, outputs, inputs, times * blocks, times * products_again)
    if sizes.mixture:
        yield from _mixture(sizes, blocks, products_again)
    else:
        yield from linear(sizes, sizes.inner, sizes.hidden, 2 * blocks, 2 * products_again)
        yield from linear(sizes, sizes.hidden, sizes.inner, blocks, products_again)
    yield from _attention(sizes, blocks, products_again)
    yield from _around(sizes, blocks, again)
    yield from _adapters(sizes, blocks, products_again)


def _projections(sizes: RankSizes) -> Iterator[tuple[int, int, int]]:
    """Outputs and inputs of attention's projections on this rank, and how many of a block have that shape."""
    hidden, latent = sizes.hidden, sizes.model.latent
    if latent is None:
        shapes = [(sizes.query_width, hidden), (sizes.key_width, hidden), (sizes.value_width, hidden)]
    else:
        expanded = sizes.key_width - sizes.heads * latent.rope_width + sizes.value_width
        shapes = [(latent.kv_rank + latent.rope_width, hidden), (expanded, latent.kv_rank)]
        if latent.q_rank is None:
            shapes.append((sizes.query_width, hidden))
        else:
            shapes += [(latent.q_rank, hidden), (sizes.query_width, latent.q_rank)]
    for outputs, inputs in dict.fromkeys(shapes):
        yield outputs, inputs, shapes.count((outputs, inputs))
    yield hidden, sizes.output_width, 1


def _mixture(sizes: RankSizes, blocks: int, again: int) -> Iterator[TracedOperation]:
    """Router, this rank's experts as grouped products of equal loads, shared experts, and moves of tokens."""
    mixture, ways = sizes.model.mixture, sizes.plan.layout.tensor_parallel
    assert mixture is not None
    hidden, tokens, dtype = sizes.hidden, sizes.tokens, projection_dtype(sizes)
    yield from linear(sizes, mixture.experts, hidden, blocks, again, of_block=False)
    routed = math.ceil(sizes.expert_load * tokens * mixture.top_k)
    used = min(sizes.experts, max(1, routed))
    rows, columns = -(-routed // used), -(-mixture.expert_width // ways)
    for outputs, inputs, times in ((columns, hidden, 2), (hidden, columns, 1)):
        yield product(sizes, "forward", (used, rows, outputs, inputs), times * blocks, "grouped matmul", dtype)
        if again:
            yield product(sizes, "backward", (used, rows, outputs, inputs), times * again, "grouped matmul", dtype)
        name = "grouped matmul, gradient of the input"
        yield product(sizes, "backward", (used, rows, inputs, outputs), times * blocks, name, dtype)
        if not sizes.frozen:
            name = "grouped matmul, gradient of the weights"
            yield product(sizes, "backward", (used, outputs, inputs, rows), times * blocks, name, dtype)
    if shared := -(-shared_width(sizes.model) // ways):
        yield from linear(sizes, shared, hidden, 2 * blocks, 2 * again)
        yield from linear(sizes, hidden, shared, blocks, again)
    moved = 2 * sizes.compute_bytes * hidden * (mixture.top_k + 1) * tokens
    both: tuple[tuple[Phase, int], ...] = (("forward", blocks), ("backward", again + blocks))
    for phase, times in both:
        yield moves(sizes, "routing", "copy", phase, moved, times, kernels=8)


def _attention(sizes: RankSizes, blocks: int, again: int) -> Iterator[TracedOperation]:
    if not attention_is_fused(sizes.plan.spec.tuning):
        yield from _eager_attention(sizes, blocks, again)
        return
    causal = sizes.model.position_encoding == "rope" or sizes.plan.spec.tuning.attention == "flex"
    moved = sizes.compute_bytes * sizes.attention_widths * sizes.tokens
    window = sizes.model.window or sizes.context_len
    windowed = sizes.windowed_blocks if causal and window < sizes.context_len else 0
    repeated = min(again, round(again * windowed / blocks)) if blocks else 0
    whole = sizes.context_len / (2 if causal else 1)
    seen = window * (1 - window / (2 * sizes.context_len))
    spans = (
        ("attention", whole, blocks - windowed, again - repeated),
        ("windowed attention", seen, windowed, repeated),
    )
    for name, keys, times, more in spans:
        flops = 2.0 * (sizes.query_width + sizes.output_width) * sizes.tokens * keys
        forms: tuple[tuple[str, Phase, float, int], ...] = (
            (name, "forward", 1.0, times),
            (name, "backward", 1.0, more),
            (f"{name}, gradients", "backward", 2.5, times),
        )
        for form, phase, factor, count in forms:
            yield TracedOperation(
                name=form,
                kind="attention",
                phase=phase,
                dtype=compute_dtype(sizes),
                flops=factor * flops,
                bytes=int(moved * (1 if factor == 1.0 else 2)),
                per_micro_batch=count,
            )


def _eager_attention(sizes: RankSizes, blocks: int, again: int) -> Iterator[TracedOperation]:
    """Scores, softmax in float32, weighted values: two products forward, four backward."""
    width, values = sizes.query_width // sizes.heads, sizes.output_width // sizes.heads
    batch, rows, keys = sizes.micro_batch * sizes.heads, sizes.seq_len, sizes.context_len
    both: tuple[tuple[Phase, int], ...] = (("forward", blocks), ("backward", again))
    for phase, times in both:
        yield product(sizes, phase, (batch, rows, keys, width), times, "scores")
        yield product(sizes, phase, (batch, rows, values, keys), times, "weighted values")
        # scaled, masked, softmax, cast: each reads and writes the scores
        moved = (6 * sizes.compute_bytes + 6) * scores(sizes)
        yield moves(sizes, "scale, mask and softmax", "elementwise", phase, moved, times, kernels=4)
    if values == width:
        yield product(sizes, "backward", (batch, rows, keys, width), 2 * blocks, "gradients of weights and keys")
        yield product(sizes, "backward", (batch, rows, width, keys), 2 * blocks, "gradients of values and queries")
    else:
        yield product(sizes, "backward", (batch, rows, keys, values), 2 * blocks, "gradients of weights and values")
        yield product(sizes, "backward", (batch, rows, keys, width), 2 * blocks, "gradients of keys and queries")
    moved = (4 * sizes.compute_bytes + 16) * scores(sizes)
    yield moves(sizes, "softmax, gradient", "elementwise", "backward", moved, blocks, kernels=4)


def _around(sizes: RankSizes, blocks: int, again: int) -> Iterator[TracedOperation]:
    """Norms, rotary positions, SwiGLU and residuals of the blocks."""
    stream = sizes.compute_bytes * sizes.hidden * sizes.tokens // sizes.sequence_parts
    rope = sizes.compute_bytes * (sizes.query_width + sizes.key_width) * sizes.tokens
    gate = sizes.compute_bytes * sizes.inner * sizes.tokens
    rotates, norms = sizes.model.position_encoding == "rope", sizes.model.norms_per_block
    turn = (2, 1) if runs_fused(sizes, "rope") else (9, 5)
    swiglu = {1: (3, 1), 2: (5, 2)}.get(gate_steps(sizes), (16, 7))
    passes: tuple[tuple[str, Phase, float, int], ...] = (
        ("", "forward", 1.0, blocks),
        ("", "backward", 1.0, again),
        (", gradient", "backward", 1.6, blocks),
    )
    joined, normed = sizes.plan.spec.tuning.compile, sizes.model.qk_norm != "none"
    for suffix, phase, factor, times in passes:
        streams, kernels = _norm_streams(sizes, gradient=bool(suffix))
        if normed:
            yield moves(sizes, f"norm of queries and keys{suffix}", "norm", phase, streams * rope, times, 2 * kernels)
        if joined:  # a sum and the norms beside it: two tensors read and two written, backward one more of each norm
            both = 4 + (norms - 2 if suffix else 0)
            yield moves(sizes, f"norm and residual{suffix}", "norm", phase, both * stream, 2 * times)
        else:
            yield moves(sizes, f"norm{suffix}", "norm", phase, streams * stream, norms * times, kernels)
            yield moves(sizes, f"residual{suffix}", "elementwise", phase, 3 * stream, 2 * times)
        if rotates and not (joined and normed):
            yield moves(sizes, f"rope{suffix}", "rope", phase, turn[0] * rope, times, turn[1] * 2)
        yield moves(sizes, f"swiglu{suffix}", "activation", phase, int(factor * swiglu[0] * gate), times, swiglu[1])
    if sizes.casts:
        weights = (4 + sizes.compute_bytes) * sizes.block_matrices
        yield moves(sizes, "cast of weights", "copy", "forward", weights, blocks, kernels=7)
        yield moves(sizes, "cast of weights", "copy", "backward", weights, again, kernels=7)
        yield moves(sizes, "cast of gradients", "copy", "backward", weights, blocks, kernels=7)
    if not sizes.frozen and sizes.plan.batch.gradient_accumulation > 1:
        added = 3 * sizes.weight_bytes * sizes.block_matrices
        yield moves(sizes, "addition of gradients", "elementwise", "backward", added, blocks, kernels=7)


def _norm_streams(sizes: RankSizes, *, gradient: bool) -> tuple[int, int]:
    """How often a norm reads or writes its input's size, and its kernels; separate ones compute in float32."""
    if runs_fused(sizes, "rms_norm"):
        return (3, 1) if gradient else (2, 1)
    if sizes.compute_bytes < SINGLE:
        return (40, 16) if gradient else (18, 8)
    return (20, 14) if gradient else (7, 6)


def _adapters(sizes: RankSizes, blocks: int, again: int) -> Iterator[TracedOperation]:
    lora = sizes.plan.spec.contract.lora
    if lora is None:
        return
    outputs = {
        "W_pack": 3 * sizes.query_width,
        "q_proj": sizes.query_width,
        "k_proj": sizes.key_width,
        "v_proj": sizes.value_width,
        "gate_proj": sizes.inner,
        "up_proj": sizes.inner,
    }
    tokens = sizes.tokens
    for target in sizes.adapter_targets:
        inputs = sizes.inner if target == "down_proj" else sizes.hidden
        columns = outputs.get(target, sizes.hidden)
        for rows_in, rows_out in ((inputs, lora.rank), (lora.rank, columns)):
            yield product(sizes, "forward", (1, tokens, rows_out, rows_in), blocks, "adapter")
            yield product(sizes, "backward", (1, tokens, rows_out, rows_in), again, "adapter")
            yield product(sizes, "backward", (1, tokens, rows_in, rows_out), blocks, "adapter, gradient of the input")
            yield product(sizes, "backward", (1, rows_out, rows_in, tokens), blocks, "adapter, gradient of the weights")
        moved = 4 * tokens * (3 * inputs + 3 * columns)
        yield moves(sizes, "dropout and sum of an adapter", "elementwise", "forward", moved, blocks, kernels=4)
        yield moves(sizes, "dropout and sum of an adapter", "elementwise", "backward", moved, blocks + again, kernels=4)


def _ends(sizes: RankSizes) -> Iterator[TracedOperation]:
    """Embedding on the first stage; last norm, head and loss on the last."""
    stream = sizes.compute_bytes * sizes.hidden * sizes.tokens
    table = sizes.weight_bytes * sizes.vocabulary * sizes.hidden
    if sizes.first:
        yield moves(sizes, "embedding", "embedding", "forward", 2 * stream, 1)
        if not sizes.frozen:
            yield moves(sizes, "embedding, gradient", "embedding", "backward", 2 * table + stream, 1, kernels=2)
    if not sizes.last:
        return
    both: tuple[tuple[str, Phase], ...] = (("norm", "forward"), ("norm, gradient", "backward"))
    for name, phase in both:
        streams, kernels = _norm_streams(sizes, gradient=phase == "backward")
        yield moves(sizes, name, "norm", phase, streams * stream, 1, kernels)
    yield from linear(sizes, sizes.vocabulary, sizes.hidden, 1 + sizes.model.multi_token_layers, 0, of_block=False)
    logits = sizes.tokens * sizes.vocabulary
    fused = runs_fused(sizes, "cross_entropy")
    forward = sizes.compute_bytes if fused else sizes.compute_bytes + 12
    yield moves(sizes, "cross entropy", "loss", "forward", forward * logits, 1, kernels=1 if fused else 3)
    backward = sizes.compute_bytes if fused else 20 + sizes.compute_bytes
    yield moves(sizes, "cross entropy, gradient", "loss", "backward", backward * logits, 1, kernels=1 if fused else 3)
    if sizes.model.normalized_head:
        yield moves(sizes, "normalised head", "elementwise", "forward", 3 * table, 1, kernels=3)
        yield moves(sizes, "normalised head, gradient", "elementwise", "backward", 8 * table, 1, kernels=6)


def _update(sizes: RankSizes) -> Iterator[TracedOperation]:
    """AdamW of this rank's shard: it reads gradient, weight and both moments, and writes all but the gradient."""
    whole = sizes.whole_trained
    shard = whole - (whole - sizes.trained) // sizes.sharding
    recipe = precision_recipe(sizes.plan.spec.contract.precision)
    updated = recipe.master_weights or recipe.weights
    element = DTYPE_BYTES[updated]
    copied = sizes.weight_bytes if sizes.weight_bytes < element else 0
    moved = 3 * element + 4 * DTYPE_BYTES[recipe.optimizer_states] + copied
    adamw = int((moved + sizes.plan.worker.update_bytes_per_parameter) * shard)
    clips = int(sizes.plan.spec.contract.optimizer.clip_norm is not None)
    for name, flops, size, times in (
        ("adamw", 12.0, adamw, 1),
        ("gradient norm and clipping", 2.0, 3 * shard * sizes.weight_bytes, clips),
    ):
        yield TracedOperation(
            name=name,
            kind="optimizer",
            phase="update",
            dtype=updated,
            flops=flops * shard,
            bytes=size,
            kernels=10,
            per_step=times,
        )
