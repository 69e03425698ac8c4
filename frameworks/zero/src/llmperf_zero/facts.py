"""What the core needs to know of DeepSpeed, for every framework that is built on it."""

from __future__ import annotations

import shutil
from dataclasses import replace

from llmperf.types import Facts, HostCheck


def deepspeed_facts(*packages: str) -> Facts:
    """The facts of torch and of DeepSpeed, which compiles its own optimisers, and further packages."""
    from llmperf_pytorch.facts import torch_facts

    torch = torch_facts("deepspeed", *packages)
    return replace(
        torch,
        environment_names=(*torch.environment_names, "DS_ACCELERATOR"),
        waiting_frames=(*torch.waiting_frames, "deepspeed/comm/"),
        host_checks=(HostCheck(subject="host compiler", problem=_compiler_problem, mend="apt-get install g++"),),
    )


def _compiler_problem() -> str | None:
    return None if shutil.which("g++") else "no g++: framework.optimizer=deepspeed cannot be built"
