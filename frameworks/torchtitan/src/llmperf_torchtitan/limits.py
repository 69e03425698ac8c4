"""Models, layouts and settings that torchtitan cannot train here; imports neither torch nor torchtitan."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import llmperf
from llmperf import setting_problem
from llmperf.types import Layout, Precision, Probe, Problem, RunSpec
from llmperf_torchkit.limits import compile_problems, division_problems, library_problems

RECIPES: tuple[Precision, ...] = ("fp32", "tf32", "bf16")
SUPPORTED = ("head_width", "mixture", "qk_norm", "rope_scaling")
"""Facts of a model that `configuration.py` passes on."""
TESTED = "0.3"
"""Version of torchtitan whose interfaces `configuration.py` and `cpu.py` are written for."""


def problems(spec: RunSpec, probe: Probe, layout: Layout) -> Iterator[Problem]:
    """Every reason why torchtitan cannot train a case on these devices."""
    problem = partial(setting_problem, "torchtitan")
    model, tuning = spec.model, spec.tuning
    yield from library_problems("torchtitan", "torchtitan", TESTED, SUPPORTED, spec, probe)
    if (scaling := model.rope_scaling) is not None and (scaling.method != "llama3" or model.qk_norm != "none"):
        message = (
            f"torchtitan stretches positions only as Llama 3.1 does, without norms of queries: found {model.name}'s"
        )
        yield problem("model.rope_scaling", f"{message}; the nearest is --framework pytorch")
    if model.qk_norm == "none" and model.query_width * model.attention_heads != model.hidden_size:
        message = f"its Llama has heads as wide as hidden_size / attention_heads, found {model.query_width}"
        yield problem("model.head_width", f"{message}; the nearest is --framework pytorch")
    if model.mixture is not None and model.qk_norm == "none":
        yield problem("model.mixture", "its mixture here is Qwen3's, with norms of queries and keys")
    if model.mixture is not None and spec.contract.precision != "bf16":
        message = f"torchtitan computes experts in bf16: expected bf16, found {spec.contract.precision}"
        yield problem("contract.precision", message)
    if layout.expert_parallel > 1 and probe.on_cpu:
        yield problem("tuning.expert_parallel", "gloo exchanges no unequal parts: expected 1 on a CPU")
    if model.tied_embeddings and layout.pipeline_parallel > 1:
        yield problem("tuning.pipeline_parallel", "the first and the last stage cannot share the tied embedding")
    yield from llmperf.parallelism_problems(
        "torchtitan", spec, ("tensor_parallel", "sequence_parallel", "pipeline_parallel", "expert_parallel")
    )
    yield from llmperf.fused_op_problems("torchtitan", spec, ())
    yield from llmperf.option_problems("torchtitan", spec.framework, {})
    yield from compile_problems("torchtitan", spec, probe)
    if tuning.sharding_stage and layout.sharding_degree != layout.data_parallel and layout.expert_parallel > 1:
        yield problem("tuning.sharding_degree", f"with experts on several ranks expected {layout.data_parallel}")
    dense = ("intermediate_size",) if model.mixture is None else ()
    yield from division_problems("torchtitan", spec, "vocab_size", "kv_heads", *dense)
    if tuning.attention not in ("auto", "sdpa", *(() if probe.on_cpu else ("flex",))):
        where = " on a CPU" if probe.on_cpu else ""
        yield problem(
            "tuning.attention", f"expected auto or sdpa{where}, found {tuning.attention}; the nearest is auto"
        )
    if tuning.gradient_checkpointing and tuning.recompute_every > 1:
        yield problem("tuning.recompute_every", "expected 1: torchtitan computes every block again")
    if tuning.pipeline_schedule != "1f1b" or tuning.virtual_stages > 1:
        yield problem("tuning.pipeline_schedule", "expected 1f1b of one stage a rank; the nearest is 1f1b")
    if spec.contract.routing != "learned" and model.mixture is not None:
        yield problem("contract.routing", "torchtitan's router takes no table: expected learned")
