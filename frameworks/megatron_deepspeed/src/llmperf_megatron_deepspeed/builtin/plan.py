"""The built-in engine's part of the plan: its options, limits and configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import llmperf
from llmperf import (
    OptionCheck,
    architecture_problems,
    family_problem,
    option_problems,
    parallelism_problems,
    setting_problem,
    whole_number,
)
from llmperf.types import Layout, Probe, Problem, RunSpec, WorkerPlan
from llmperf_pytorch.kernel_limits import used_fused_ops
from llmperf_pytorch.limits import device_problems
from llmperf_torchkit.limits import adapter_problems, division_problems, torch_worker
from llmperf_zero.config import CONFIG, ds_config, with_held_memory
from llmperf_zero.plugin import degree_problems

FAMILIES = ("llama", "qwen2", "qwen3", "gemma3", "chatglm")
"""Families that are built. So are others whose facts are all built."""
PACKED = ("baichuan",)
"""Families whose checkpoints have queries, keys and values in one matrix, which is not built."""
SUPPORTED = (
    *("head_width", "qk_norm", "attention_bias", "sinks", "window", "query_scale_width", "activation"),
    *("feed_forward_bias", "norms_per_block", "norm_offset", "rope_scaling", "rotated_share"),
    *("rotated_pairs", "embedding_scale"),
)
"""Facts of a model that are built, whatever its family."""
OPTIONS: Mapping[str, Sequence[object] | OptionCheck] = {
    "engine": ("builtin", "checkout"),
    "reduce_bucket_size": whole_number(1),
    "overlap_tensor_parallel": (False, True),
}
"""`overlap_tensor_parallel`: in the backward pass, gradients of weights are computed while tensor-parallel ranks sum
those of states. `reduce_bucket_size`: gradients that are reduced at once, in elements; default 500,000,000."""


def builtin_problems(spec: RunSpec, probe: Probe, layout: Layout) -> Iterator[Problem]:
    """All of it at once."""
    yield from adapter_problems("megatron_deepspeed", spec)
    if spec.tuning.sharding_stage != 1:
        message = (
            f"ZeRO-1 only: DeepSpeed refuses stages 2 and 3 with a pipeline, and clips wrongly at stage 0;"
            f" expected 1, found {spec.tuning.sharding_stage}; the nearest is 1"
        )
        yield setting_problem("megatron_deepspeed", "tuning.sharding_stage", message)
    else:
        yield from degree_problems(layout)
    yield from parallelism_problems(
        "megatron_deepspeed", spec, ("tensor_parallel", "pipeline_parallel", "sequence_parallel")
    )
    yield from division_problems("megatron_deepspeed", spec, "vocab_size", "intermediate_size")
    seq_len, ways = spec.contract.seq_len, spec.tuning.tensor_parallel
    if spec.tuning.sequence_parallel and seq_len % ways:
        message = f"tensor parallel {ways} does not divide seq_len {seq_len}; nearest: --set sequence_parallel=false"
        yield setting_problem("megatron_deepspeed", "tuning.sequence_parallel", message)
    if spec.framework.get("overlap_tensor_parallel") is True and ways == 1:
        message = "overlap_tensor_parallel needs tensor parallel ranks, found 1; the nearest is to leave it out"
        where = "framework.overlap_tensor_parallel"
        yield Problem(code="megatron_deepspeed.overlap_tensor_parallel", where=where, message=message)
    yield from device_problems("megatron_deepspeed", spec, probe)
    yield from _model_problems(spec)
    options = dict(spec.framework)
    if options.pop("megatron_home", None) is not None:
        message = "only engine 'checkout' drives a checkout: --set framework.engine=checkout"
        yield setting_problem("megatron_deepspeed", "framework.megatron_home", message)
    yield from option_problems("megatron_deepspeed", options, OPTIONS)


def _model_problems(spec: RunSpec) -> Iterator[Problem]:
    model = spec.model
    unbuilt = list(architecture_problems("megatron_deepspeed", spec, SUPPORTED))
    if model.family in PACKED or (unbuilt and model.family not in FAMILIES):
        yield family_problem("megatron_deepspeed", spec, FAMILIES, "the nearest is --framework zero, which builds it")
        return
    yield from unbuilt
    if model.position_encoding != "rope" or model.normalized_head:
        message = f"the built-in engine has rotary positions and a plain head; {model.name} asks for others"
        message = f"{message}; the nearest is --framework zero"
        yield setting_problem("megatron_deepspeed", "model.family", message)


def plan_builtin(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """One rank a device; tensor parallel varies fastest, then data, then pipeline, as in DeepSpeed's topology."""
    layout = llmperf.standard_layout(spec)
    worker = torch_worker(
        spec,
        probe,
        layout,
        settings=("compile",),
        fused_ops=used_fused_ops("megatron_deepspeed", spec),
        files={CONFIG: pipeline_config(spec, layout.data_parallel)},
        problems=tuple(builtin_problems(spec, probe, layout)),
    )
    return worker if worker.problems else with_held_memory(worker, spec)


def pipeline_config(spec: RunSpec, data_parallel: int) -> str:
    """The text of `ds_config.json`: that of ZeRO, and what the pipeline engine needs.

    Between stages each tensor-parallel rank sends whole activations. Sent in parts, as is DeepSpeed's default, the host
    reads their shapes from the device with each of them and waits.
    """
    config = json.loads(ds_config(spec, data_parallel))
    config["pipeline"] = {"use_reentrant": False, "pipe_partitioned": False, "grad_partitioned": False}
    return json.dumps(config, indent=2) + "\n"
