"""Rules for results of NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf.types import Text
from llmperf.validation import rule

if TYPE_CHECKING:
    from llmperf.types import Result

PAGE = """# NVIDIA1: The ranks' torch was built for GPUs

Severity: error. Applies to: result.

A torch whose version ends in `+cpu` was built without CUDA and cannot use a GPU. A complete result of NVIDIA GPUs whose
ranks had such a torch, and no other library of tensors, was measured on another device.
"""
OTHER_LIBRARIES = ("paddle",)


@rule("NVIDIA1", "error", "The ranks' torch was built for GPUs", page=PAGE)
def torch_for_gpus(result: Result) -> Iterator[tuple[str, str]]:
    packages = result.software.packages
    real = result.hardware.vendor == "nvidia" and not result.hardware.simulated and result.status == "complete"
    if real and packages.get("torch", "").endswith("+cpu") and not any(name in packages for name in OTHER_LIBRARIES):
        yield "/software/packages/torch", Text("expected a torch with CUDA on a GPU, found {}", packages["torch"])
