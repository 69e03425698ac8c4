"""Layouts that share a model among ranks, for the plan: which run, and what each rank holds; imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import llmperf
from llmperf import parallelism_problems, setting_problem
from llmperf.types import Problem

from llmperf_pytorch.limits import TORCH_SETTINGS

if TYPE_CHECKING:
    from llmperf.types import Layout, Model, RunSpec


OPTIONS = {"prefetch": (0, 1, 2, 3)}
"""`framework.prefetch`: for how many blocks ahead parameters are gathered while one computes."""
SETTINGS = ("accumulation_dtype", "emulate_precision", "pipeline_schedule", "virtual_stages", *TORCH_SETTINGS)
"""Optional settings that the framework supports."""


def shares_model(layout: Layout) -> bool:
    """Check whether a rank holds only a part of the model or of its states."""
    sharded = bool(layout.sharding_stage) and layout.sharding_degree > 1
    return sharded or max(layout.tensor_parallel, layout.pipeline_parallel, layout.expert_parallel) > 1


def update_bytes_per_parameter(spec: RunSpec, layout: Layout) -> float:
    """Upper bound of FSDP2's memory beside ZeRO's states, in bytes per parameter of a rank's shard.

    Gathered parameters are a copy: the float32 shards stay beside them at stages 0 to 2. In 16 bits ZeRO's count has
    these shards as master weights. Reduced gradients are float32, which ZeRO counts with 2 bytes in 16 bits. At stage 1
    the reduced gradients of a block take the place of the larger ones that the rank has added up.
    """
    if not shares_model(layout) or layout.pipeline_parallel > 1:
        return 0.0
    recipe = llmperf.precision_recipe(spec.contract.precision)
    half, stage = recipe.rest_bytes == 2, layout.sharding_stage
    if half and recipe.master_weights is None:
        return {0: 2.0, 1: 2.0, 2: 2.0, 3: 0.0}[stage]
    return {0: 2.0, 1: 0.0, 2: 2.0, 3: 0.0}[stage] if half else {0: 4.0, 1: 4.0, 2: 4.0, 3: 0.0}[stage]


def gathered_blocks(spec: RunSpec, layout: Layout) -> int:
    """Blocks whose sharded parameters are gathered at once: the one that computes, and those gathered ahead."""
    ahead = spec.framework.get("prefetch", 1)
    return 1 + int(ahead) if layout.sharding_stage == 3 and ahead in OPTIONS["prefetch"] else 0


def layout_problems(spec: RunSpec, layout: Layout) -> Iterator[Problem]:
    """Every reason why ranks cannot share the model like this."""
    yield from parallelism_problems(
        "pytorch", spec, ("tensor_parallel", "sequence_parallel", "pipeline_parallel", "expert_parallel")
    )
    yield from _expert_problems(spec, layout)
    undivided = _undivided(spec.model)
    if layout.tensor_parallel > 1 and undivided is not None:
        message = f"pytorch does not divide {undivided} among ranks ({spec.model.name}); the nearest is 1"
        yield setting_problem("pytorch", "tuning.tensor_parallel", message)
    if spec.tuning.sequence_parallel and spec.contract.seq_len % layout.tensor_parallel:
        message = f"tensor parallel {layout.tensor_parallel} does not divide seq_len {spec.contract.seq_len}"
        message = f"{message}; nearest: --set sequence_parallel=false"
        yield setting_problem("pytorch", "tuning.sequence_parallel", message)
    for name in ("vocab_size", "intermediate_size"):
        size, ways = getattr(spec.model, name), layout.tensor_parallel
        if size % ways:
            nearest = max(part for part in range(1, ways + 1) if size % part == 0)
            what = f"{spec.model.name} has {name} {size}, which tensor parallel {ways} does not divide"
            message = f"{what}; the nearest that does is {nearest}"
            yield setting_problem("pytorch", "tuning.tensor_parallel", message)
    yield from _pipeline_problems(spec, layout)
    depth = spec.framework.get("prefetch", 1)
    if "prefetch" in spec.framework and not shares_model(layout):
        message = f"only sharded blocks are gathered ahead: expected no such option at sharding stage 0, found {depth}"
        yield setting_problem("pytorch", "framework.prefetch", message)


def _expert_problems(spec: RunSpec, layout: Layout) -> Iterator[Problem]:
    """Expert parallelism with what it does not run with."""
    if layout.expert_parallel == 1:
        return
    reasons = []
    if layout.pipeline_parallel > 1:
        reasons.append("stages of a pipeline hold all experts of their layers")
    if spec.tuning.compile:
        reasons.append("blocks that communicate are not compiled")
    for reason in reasons:
        message = f"{reason}: expected 1, found {layout.expert_parallel}; the nearest is 1"
        yield setting_problem("pytorch", "tuning.expert_parallel", message)


def _undivided(model: Model) -> str | None:
    """A part of the model that tensor-parallel ranks cannot share; None without any."""
    parts = {
        "a packed projection": model.family == "baichuan",
        "ALiBi": model.position_encoding != "rope",
        "latent attention": model.latent is not None,
        "sinks": model.sinks,
        "experts": model.mixture is not None,
        "biases": bool(model.attention_bias) or model.feed_forward_bias,
        "norms of queries and keys": model.qk_norm != "none",
        "a block of four norms": model.norms_per_block == 4,
        "an embedding that is scaled": model.embedding_scale != 1,
    }
    return next((part for part, present in parts.items() if present), None)


def _pipeline_problems(spec: RunSpec, layout: Layout) -> Iterator[Problem]:
    tuning, model = spec.tuning, spec.model
    ranks, virtual, schedule = layout.pipeline_parallel, tuning.virtual_stages, tuning.pipeline_schedule

    def problem(where: str, message: str) -> Problem:
        return Problem(code=f"pytorch.{where.rpartition('.')[2]}", where=where, message=message)

    if ranks == 1:
        if schedule != "1f1b":
            yield problem("tuning.pipeline_schedule", f"one stage has no schedule: expected 1f1b, found {schedule}")
        if virtual > 1:
            yield problem("tuning.virtual_stages", f"one rank has one stage: expected 1, found {virtual}")
        return
    if layout.sharding_stage:
        message = f"stages of a pipeline are replicated: expected 0, found {layout.sharding_stage}; nearest:"
        yield problem("tuning.sharding_stage", f"{message} --set sharding_stage=0 or --framework megatron_deepspeed")
    if model.tied_embeddings:
        message = "the first and the last stage cannot share the tied embedding; the nearest is 1"
        yield problem("tuning.pipeline_parallel", message)
    if (schedule == "1f1b") != (virtual == 1) and schedule != "zero_bubble":
        message = f"expected 1 with schedule 1f1b and 2 or more with interleaved, found {virtual} with {schedule}"
        nearest = "--set pipeline_schedule=interleaved" if virtual > 1 else "--set virtual_stages=2"
        yield problem("tuning.virtual_stages", f"{message}; nearest: {nearest}")
    elif virtual > 1 and model.layers % ranks == 0 and model.layers % (ranks * virtual):
        message = f"{model.name} has {model.layers} layers, which {ranks} x {virtual} stages do not divide"
        divisor = max(count for count in range(1, virtual + 1) if model.layers % (ranks * count) == 0)
        yield problem("tuning.virtual_stages", f"{message}; the nearest that does is {divisor}")
    if schedule == "zero_bubble" and tuning.gradient_checkpointing:
        message = "its two backward passes would each compute a block again: expected no gradient checkpointing"
        yield problem("tuning.pipeline_schedule", f"{message}, found true; the nearest is 1f1b")
    batches = micro_batches(spec, layout)
    rounds = max(1, batches // ranks)
    if schedule != "1f1b" and batches % rounds:
        message = f"schedule {schedule} divides micro batches into {rounds} equal rounds: found {batches};"
        yield problem("tuning.gradient_accumulation", f"{message} the nearest that works is {rounds * ranks}")


def micro_batches(spec: RunSpec, layout: Layout) -> int:
    """Number of micro batches of one step, on each data-parallel rank."""
    tuning = spec.tuning
    share = spec.contract.global_batch // (tuning.micro_batch * layout.data_parallel)
    return tuning.gradient_accumulation or max(1, share)
