"""Facts about DeepSpeed that the core asks of every framework built on it."""

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
        host_checks=(
            HostCheck(subject="host compiler", problem=_compiler_problem, mend="apt-get install g++"),
            HostCheck(subject="CUDA compiler", problem=_cuda_problem, mend="apt-get install nvidia-cuda-toolkit"),
        ),
    )


def _compiler_problem() -> str | None:
    from llmperf_pytorch.compilers import host_compiler

    if host_compiler() is not None:
        return None
    return "no g++: compile=true and framework.optimizer=deepspeed need it, nothing else does"


def _cuda_problem() -> str | None:
    from llmperf_pytorch.compilers import cuda_compiler

    if shutil.which("nvidia-smi") is None or cuda_compiler() is not None:
        return None
    return "no nvcc in PATH, CUDA_HOME or /usr/local/cuda: framework.optimizer=deepspeed needs it, nothing else does"
