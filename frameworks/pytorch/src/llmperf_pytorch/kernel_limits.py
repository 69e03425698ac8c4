"""Kernels of the torch frameworks by device, and the settings that they refuse; imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import llmperf
from llmperf.types import Problem

from llmperf_pytorch.precision_limits import NO_CAPABILITY, capability

if TYPE_CHECKING:
    from llmperf.types import Probe, RunSpec

HALF = ("bf16", "fp16")
"""Dtypes that flash and cuDNN attention compute in."""
NAMES = {
    "flash": "flash attention",
    "efficient": "memory-efficient attention",
    "cudnn": "cuDNN's attention",
    "flex": "FlexAttention",
}
"""Values of `tuning.attention` that need an accelerator."""
FUSED_OPS = ("rms_norm", "rope", "swiglu", "cross_entropy")
"""`cross_entropy` is not there where DTensor or a pipeline of torch's divides head and loss."""
GROUPED_SINCE = (9, 0)
"""CUDA's compute capability from which torch has one kernel for the products of all experts; below it torch 2.8 refuses
them, and later versions loop over the experts."""
WITHOUT_BIAS = ("flash", "cudnn")
"""Those that take neither ALiBi nor windows."""


def attention_problems(framework: str, spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """A kernel that the devices, the precision or the model's positions rule out; the first reason only."""
    attention = spec.tuning.attention
    if probe.on_cpu and attention in NAMES:
        message = f"{NAMES[attention]} needs an accelerator: expected auto, eager or sdpa on a CPU; the nearest is sdpa"
        yield Problem(code=f"{framework}.attention", where="tuning.attention", message=message)
    elif attention in WITHOUT_BIAS and (bias := _bias(spec)) is not None:
        message = (
            f"torch's {attention} kernel takes no {bias}: expected auto, eager, sdpa, efficient or flex; the nearest is"
            " sdpa"
        )
        yield Problem(code=f"{framework}.attention", where="tuning.attention", message=message)
    else:
        yield from precision_problems(framework, spec)


def _bias(spec: RunSpec) -> str | None:
    """Property of the model's attention that some kernels cannot express; None if it is plainly causal."""
    if spec.model.position_encoding == "alibi":
        return "ALiBi"
    windowed = spec.model.window is not None and spec.model.window < spec.contract.seq_len
    return f"window of {spec.model.window} tokens" if windowed else None


def precision_problems(framework: str, spec: RunSpec, nearest: str = "sdpa") -> Iterator[Problem]:
    """Kernels that compute in 16 bits, where attention is computed in 32; recipes with fp8 compute it in 16."""
    attention, precision = spec.tuning.attention, spec.contract.precision
    if attention in ("flash", "cudnn") and llmperf.precision_recipe(precision).rest not in HALF:
        message = f"{NAMES[attention]} computes in bf16 and fp16, found {precision}"
        message = f"{message}; nearest: --set attention={nearest}"
        yield Problem(code=f"{framework}.attention", where="tuning.attention", message=message)


def possible_fused_ops(framework: str, spec: RunSpec) -> tuple[str, ...]:
    """Valid names for `tuning.fused_ops` on every device: operations that the model has."""
    shares_head = spec.tuning.tensor_parallel > 1 or spec.tuning.pipeline_parallel > 1
    absent = {
        "rope": spec.model.position_encoding != "rope",
        "swiglu": spec.model.activation != "swiglu",
        "cross_entropy": framework == "pytorch" and shares_head,
    }
    return tuple(name for name in FUSED_OPS if not absent.get(name))


def used_fused_ops(framework: str, spec: RunSpec) -> tuple[str, ...]:
    """Those of a run.

    `auto` is all that are possible. Where whole blocks are compiled, the compiler fuses rotary positions and SwiGLU
    with what is around them.
    """
    possible = possible_fused_ops(framework, spec)
    if spec.tuning.compile:
        possible = tuple(name for name in possible if name not in ("rope", "swiglu"))
    return llmperf.expanded_fused_ops(spec, possible)


def has_grouped_products(probe: Probe) -> bool:
    """Check whether one kernel computes the products of all experts, without the host waiting for each."""
    return not probe.on_cpu and (capability(probe) >= GROUPED_SINCE or capability(probe) == NO_CAPABILITY)


def expert_notes(spec: RunSpec, probe: Probe) -> tuple[str, ...]:
    """Notes on a mixture for devices that compute its experts one by one."""
    if spec.model.mixture is None or probe.on_cpu or has_grouped_products(probe):
        return ()
    return (
        f"experts: one matrix product for each on {probe.devices[0].model}, and the host waits for their sizes in every"
        " layer: torch groups the products of experts from compute capability 9.0 on",
    )


def compiled_block_problems(framework: str, spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """Where a block cannot be compiled as a whole."""
    tuning = spec.tuning
    if not tuning.compile:
        return
    without = "nearest: --set compile=false"
    reasons = []
    if tuning.sharding_stage == 3 and framework != "pytorch":
        reasons.append("ZeRO-3 gathers weights in hooks inside a block, which torch.compile cannot follow")
    if tuning.tensor_parallel > 1:
        reasons.append("ranks that share a block communicate inside it, which is not compiled")
    if tuning.pipeline_parallel > 1 and framework == "pytorch":
        reasons.append("pipeline stages of torch.distributed are not compiled")
    if spec.model.mixture is not None and not has_grouped_products(probe):
        reasons.append("on these devices each expert has a product of its own, of as many rows as it gets tokens")
    if tuning.gradient_checkpointing and tuning.recompute == "operations":
        reasons.append("in a compiled block the compiler chooses what is kept: expected recompute block")
    if spec.contract.warmup_steps == 0:
        reasons.append(
            "blocks are compiled in the first step, which must be a warm-up step: expected warmup_steps >= 1"
        )
    for reason in reasons:
        yield Problem(code=f"{framework}.compile", where="tuning.compile", message=f"{reason}; {without}")
