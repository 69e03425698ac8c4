"""Models, layouts and settings that megatron-core cannot train here; imports neither torch nor megatron-core."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import llmperf
from llmperf import setting_problem
from llmperf.types import Layout, Precision, Probe, Problem, RunSpec
from llmperf_torchkit.limits import division_problems, library_problems

RECIPES: tuple[Precision, ...] = ("fp32", "tf32", "bf16")
SUPPORTED = ("attention_bias", "head_width", "mixture", "qk_norm", "rope_scaling", "rotated_share")
"""Facts of a model that `configuration.py` passes on."""
TESTED = "0.16"
"""Version of megatron-core whose interfaces `configuration.py` and `cpu.py` are written for."""
OPTIONS = {"dispatcher": ("allgather", "alltoall"), "transformer_engine": (False, True)}
"""`dispatcher`: how tokens reach experts of other ranks (`moe_token_dispatcher_type`). `transformer_engine`: layers of
Transformer Engine in place of megatron-core's own."""


def problems(spec: RunSpec, probe: Probe, layout: Layout) -> Iterator[Problem]:
    """Every reason why megatron-core cannot train a case on these devices."""
    problem = partial(setting_problem, "megatron_core")
    model, tuning = spec.model, spec.tuning
    yield from library_problems("megatron_core", "megatron-core", TESTED, SUPPORTED, spec, probe)
    if (scaling := model.rope_scaling) is not None and scaling.method != "llama3":
        message = f"megatron-core's GPTModel stretches positions only as Llama 3.1 does, found {scaling.method}"
        yield problem("model.rope_scaling", f"{message}; the nearest is --framework pytorch")
    if "o" in model.attention_bias:
        yield problem("model.attention_bias", "expected biases of q, k and v alone; the nearest is --framework pytorch")
    if (mixture := model.mixture) is not None and (
        mixture.router_score != "softmax"
        or mixture.shared_experts
        or mixture.router_bias
        or mixture.expert_bias
        or mixture.groups > 1
        or mixture.dense_layers
    ):
        message = f"expected a mixture with softmax scores and no shared experts, found {model.name}'s"
        yield problem("model.mixture", f"{message}; the nearest is --framework pytorch")
    elif mixture is not None and mixture.normalized_scores and mixture.top_k == 1:
        message = "megatron-core does not normalise the score of a single expert"
        yield problem("model.mixture", f"{message}: expected top_k 2 or more; the nearest is --framework pytorch")
    yield from llmperf.parallelism_problems(
        "megatron_core", spec, ("tensor_parallel", "sequence_parallel", "pipeline_parallel", "expert_parallel")
    )
    yield from llmperf.fused_op_problems("megatron_core", spec, ())
    yield from llmperf.option_problems("megatron_core", spec.framework, OPTIONS)
    if tuning.sharding_stage > 1:
        message = f"its distributed optimiser is stage 1: expected 0 or 1, found {tuning.sharding_stage}"
        yield problem("tuning.sharding_stage", f"{message}; the nearest is 1")
    elif tuning.sharding_stage and layout.sharding_degree != layout.data_parallel:
        message = f"it shards over all data-parallel ranks: expected {layout.data_parallel}"
        yield problem("tuning.sharding_degree", f"{message}, found {layout.sharding_degree}")
    ways = tuning.tensor_parallel
    dense = ("intermediate_size",) if model.mixture is None else ()
    yield from division_problems("megatron_core", spec, "vocab_size", "kv_heads", *dense)
    if tuning.sequence_parallel and spec.contract.seq_len % ways:
        message = f"tensor parallel {ways} does not divide seq_len {spec.contract.seq_len}"
        yield problem("tuning.sequence_parallel", f"{message}; nearest: --set sequence_parallel=false")
    if model.mixture is not None and ways > 1 and not tuning.sequence_parallel:
        message = "megatron-core trains a mixture with tensor parallelism only with sequence parallelism"
        yield problem("tuning.tensor_parallel", f"{message}; nearest: --set sequence_parallel=true")
    if tuning.attention not in ("auto", "eager"):
        message = f"attention is megatron-core's or Transformer Engine's own: expected auto, found {tuning.attention}"
        yield problem("tuning.attention", message)
    if spec.framework.get("transformer_engine") is True and probe.on_cpu:
        yield problem("framework.transformer_engine", "needs an NVIDIA GPU: expected false, found true")
    if tuning.gradient_checkpointing and (tuning.recompute != "block" or tuning.recompute_every > 1):
        yield problem("tuning.recompute", "megatron-core computes whole blocks again: expected block of every block")
    yield from _schedule_problems(spec, layout)


def _schedule_problems(spec: RunSpec, layout: Layout) -> Iterator[Problem]:
    tuning, ranks = spec.tuning, layout.pipeline_parallel
    share = spec.contract.global_batch // (tuning.micro_batch * layout.data_parallel)
    batches = tuning.gradient_accumulation or max(1, share)

    def problem(where: str, message: str) -> Problem:
        return setting_problem("megatron_core", f"tuning.{where}", message)

    if tuning.pipeline_schedule == "zero_bubble":
        yield problem(
            "pipeline_schedule", "expected 1f1b or interleaved, found zero_bubble; the nearest is interleaved"
        )
    if (tuning.virtual_stages > 1) != (tuning.pipeline_schedule == "interleaved"):
        message = f"interleaved has 2 or more, 1f1b has 1: found {tuning.virtual_stages}"
        yield problem("virtual_stages", f"{message} with {tuning.pipeline_schedule}")
    elif tuning.virtual_stages > 1 and batches % ranks:
        message = f"interleaved needs a multiple of {ranks} micro batches, found {batches}"
        yield problem("gradient_accumulation", f"{message}; the nearest is {-(-batches // ranks) * ranks}")
    if spec.model.layers % (ranks * tuning.virtual_stages):
        message = f"{spec.model.layers} layers are not divided by {ranks} x {tuning.virtual_stages} stages"
        yield problem("virtual_stages" if tuning.virtual_stages > 1 else "pipeline_parallel", message)
