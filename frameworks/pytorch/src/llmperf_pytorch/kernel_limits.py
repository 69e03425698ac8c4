"""Which kernels the torch frameworks have for the devices, and what they refuse; imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import llmperf
from llmperf.types import Problem

if TYPE_CHECKING:
    from llmperf.types import Probe, RunSpec

HALF = ("bf16", "fp16")
"""Precisions that flash and cuDNN attention compute in."""
NAMES = {
    "flash": "flash attention",
    "efficient": "memory-efficient attention",
    "cudnn": "cuDNN's attention",
    "flex": "FlexAttention",
}
"""Values of `tuning.attention` that need an accelerator."""
WITHOUT_BIAS = ("flash", "cudnn")
"""Those that take no ALiBi."""


def attention_problems(framework: str, spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """A kernel that the devices, the precision or the model's positions rule out; the first reason only."""
    attention = spec.tuning.attention
    if probe.on_cpu and attention in NAMES:
        message = f"{NAMES[attention]} needs an accelerator: expected auto, eager or sdpa on a CPU; the nearest is sdpa"
        yield Problem(code=f"{framework}.attention", where="tuning.attention", message=message)
    elif spec.model.position_encoding == "alibi" and attention in WITHOUT_BIAS:
        message = (
            f"torch's {attention} kernel takes no ALiBi: expected auto, eager, sdpa, efficient or flex; the nearest is"
            " sdpa"
        )
        yield Problem(code=f"{framework}.attention", where="tuning.attention", message=message)
    else:
        yield from precision_problems(framework, spec)


def precision_problems(framework: str, spec: RunSpec, nearest: str = "sdpa") -> Iterator[Problem]:
    """Kernels that compute in 16 bits, asked for in 32."""
    attention = spec.tuning.attention
    if attention in ("flash", "cudnn") and spec.contract.precision not in HALF:
        message = f"{NAMES[attention]} computes in bf16 and fp16, found {spec.contract.precision}"
        message = f"{message}; nearest: --set attention={nearest}"
        yield Problem(code=f"{framework}.attention", where="tuning.attention", message=message)


def offered_fused_ops(spec: RunSpec) -> tuple[str, ...]:
    """The fused operations that the torch frameworks have, on every device."""
    return ("rms_norm",)


def used_fused_ops(spec: RunSpec) -> tuple[str, ...]:
    """Those of a run: RMSNorm is always one operation."""
    return tuple(dict.fromkeys(("rms_norm", *llmperf.expanded_fused_ops(spec, offered_fused_ops(spec)))))
