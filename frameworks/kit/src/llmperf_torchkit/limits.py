"""Facts of torch and settings that no trainer on it has, compilers that torch needs; for planning, imports no torch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import llmperf
from llmperf import setting_problem
from llmperf.types import Facts, Layout, Needs, Probe, Problem, RunSpec, WorkerPlan

CUDA_FOLDERS = ("CUDA_HOME", "CUDA_PATH")
USUAL_CUDA = "/usr/local/cuda"
"""Where torch looks for CUDA's compiler if neither a variable nor PATH names it."""


def host_compiler(*, c: bool = False) -> str | None:
    """The C++ compiler that torch's extensions take, or the C compiler that Triton takes; None without one."""
    variable, names = ("CC", ("gcc", "clang", "cc")) if c else ("CXX", ("g++", "c++", "clang++"))
    chosen = os.environ.get(variable, "").split()[:1]
    return next((path for name in (*chosen, *names) if (path := shutil.which(name)) is not None), None)


def cuda_compiler() -> str | None:
    """`nvcc`, where `torch.utils.cpp_extension` looks for it; None without one."""
    for folder in (*(os.environ.get(name) for name in CUDA_FOLDERS), USUAL_CUDA):
        if folder and (path := Path(folder) / "bin" / "nvcc").is_file():
            return str(path)
    return shutil.which("nvcc")


def compile_problems(framework: str, spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """Settings that torch compiles for, without what it compiles with: g++ for CPUs, a C compiler for Triton."""
    if elsewhere(spec, probe) or host_compiler(c=not probe.on_cpu) is not None:
        return
    name = "g++" if probe.on_cpu else "gcc"
    chosen = {"compile": spec.tuning.compile, "attention": spec.tuning.attention == "flex" and not probe.on_cpu}
    for setting in (setting for setting, compiles in chosen.items() if compiles):
        value = "true" if setting == "compile" else "flex"
        message = f"{setting}={value} needs {name}, which is not on this machine: apt-get install {name}"
        yield Problem(code=f"{framework}.compiler", where=f"tuning.{setting}", message=message)


def extension_problems(framework: str, spec: RunSpec, probe: Probe, where: str, setting: str) -> Iterator[Problem]:
    """A setting that compiles a C++ extension without g++, or on NVIDIA GPUs without nvcc."""
    if elsewhere(spec, probe):
        return
    lacks = ["g++"] if host_compiler() is None else []
    if probe.vendor == "nvidia" and cuda_compiler() is None:
        lacks.append("nvcc (of the CUDA toolkit; set CUDA_HOME)")
    if lacks:
        message = f"{setting} is compiled when first used and needs {' and '.join(lacks)}, not found on this machine"
        yield Problem(code=f"{framework}.compiler", where=where, message=message)


def elsewhere(spec: RunSpec, probe: Probe) -> bool:
    """Check whether the ranks run on machines whose compilers cannot be looked for here."""
    return probe.simulated or spec.tuning.nodes > 1


def adapter_problems(framework: str, spec: RunSpec) -> Iterator[Problem]:
    """Adapters, where all weights are trained."""
    if spec.contract.lora is not None:
        message = f"{framework} trains all weights; framework 'lora' trains adapters"
        yield setting_problem(framework, "contract.lora", message)


def library_problems(
    framework: str, package: str, tested: str, supported: Sequence[str], spec: RunSpec, probe: Probe
) -> Iterator[Problem]:
    """What a library with blocks of its own cannot train: in a version that is not tested, or of other models."""
    if not probe.simulated:
        try:
            installed = version(package)
        except PackageNotFoundError:
            installed = "none"
        if not installed.startswith(tested + "."):
            message = f"expected {package} {tested}, found {installed}"
            yield setting_problem(framework, "tuning.framework", message)
    yield from adapter_problems(framework, spec)
    yield from llmperf.architecture_problems(framework, spec, supported)
    if spec.model.position_encoding != "rope" or spec.model.family == "baichuan":
        message = f"{package} has rotary positions and separate projections; {spec.model.name} has others"
        yield setting_problem(framework, "model.family", f"{message}; the nearest is --framework pytorch")


def division_problems(framework: str, spec: RunSpec, *sizes: str) -> Iterator[Problem]:
    """Sizes of the model that tensor parallelism does not divide."""
    ways = spec.tuning.tensor_parallel
    for name in sizes:
        size: int = getattr(spec.model, name)
        if size % ways:
            nearest = max(part for part in range(1, ways + 1) if size % part == 0)
            message = f"{spec.model.name} has {name} {size}, which tensor parallel {ways} does not divide"
            message = f"{message}; the nearest that does is {nearest}"
            yield setting_problem(framework, "tuning.tensor_parallel", message)


def torch_worker(spec: RunSpec, probe: Probe, layout: Layout, **fields: Any) -> WorkerPlan:
    """A plan for ranks on torch that llmperf's agent starts, with further fields."""
    precision = llmperf.precision_recipe(spec.contract.precision).products
    needs = Needs(precision=precision, runtime="torch", features=llmperf.needed_features(spec, probe))
    return WorkerPlan(layout=layout, needs=needs, agent=llmperf.agent_argv(), **fields)


def torch_facts(*packages: str) -> Facts:
    """Variables, waiting calls and packages of torch, and further packages."""
    return Facts(
        environment_names=("HF_HUB_OFFLINE", "PYTORCH_ALLOC_CONF", "TOKENIZERS_PARALLELISM"),
        environment_prefixes=("ATEN_", "DNNL_", "GLOO_", "MKL_", "ONEDNN_", "TORCH_"),
        waiting_frames=(
            "torch/distributed/",
            "torch/nn/parallel/distributed.py",
            "torch/cuda/__init__.py",
            "_engine_run_backward",
        ),
        packages=("torch", "tokenizers", "triton", *packages),
    )
