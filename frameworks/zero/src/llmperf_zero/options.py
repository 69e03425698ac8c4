"""Facts and options `framework.*` of this plugin: their checks, and what they are in DeepSpeed's configuration."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmperf import OptionCheck, option_problems, whole_number
from llmperf.types import Facts, HostCheck, Probe, Problem, RunSpec
from llmperf_torchkit.limits import cuda_compiler, extension_problems, host_compiler, torch_facts


def deepspeed_facts(*packages: str) -> Facts:
    """The facts of torch and of DeepSpeed, which compiles its own optimisers, and further packages."""
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
    if host_compiler() is not None:
        return None
    return "no g++: compile=true and framework.optimizer=deepspeed need it, nothing else does"


def _cuda_problem() -> str | None:
    if shutil.which("nvidia-smi") is None or cuda_compiler() is not None:
        return None
    return "no nvcc in PATH, CUDA_HOME or /usr/local/cuda: framework.optimizer=deepspeed needs it, nothing else does"


BUCKETS = {"overlap_comm": "overlap_comm", "reduce_bucket_size": "reduce_bucket_size"}
"""Options of every stage but 0, and their names in `zero_optimization`."""
STAGE_3 = {
    "sub_group_size": "sub_group_size",
    "prefetch_bucket_size": "stage3_prefetch_bucket_size",
    "param_persistence_threshold": "stage3_param_persistence_threshold",
    "max_live_parameters": "stage3_max_live_parameters",
}
"""Options of stage 3 alone."""
OPTIONS: Mapping[str, Sequence[object] | OptionCheck] = {
    "optimizer": ("torch", "deepspeed"),
    "overlap_comm": (False, True),
    "reduce_bucket_size": whole_number(1),
    "offload": ("none", "optimizer", "parameters"),
    "sub_group_size": whole_number(1),
    "prefetch_bucket_size": whole_number(0),
    "param_persistence_threshold": whole_number(0),
    "max_live_parameters": whole_number(0),
}
"""`optimizer`: torch's AdamW, or DeepSpeed's own, which is compiled when first used. `overlap_comm`: gradients are
reduced while others are computed. Sizes are numbers of elements. `offload`: which states the host keeps in pinned
memory, `parameters` with those of the optimiser. Options that are not given have DeepSpeed's defaults."""
REDUCE_BUCKET, SUB_GROUP, LIVE = 500_000_000, 1_000_000_000, 1_000_000_000
"""DeepSpeed's defaults of `reduce_bucket_size`, `sub_group_size` and `max_live_parameters`."""
LEAST_STAGE = {"none": 0, "optimizer": 1, "parameters": 3}
"""The lowest stage at which states can be offloaded."""


def zero_section(spec: RunSpec) -> dict[str, Any]:
    """`zero_optimization` in DeepSpeed's configuration."""
    section: dict[str, Any] = {"stage": spec.tuning.sharding_stage}
    named = {**BUCKETS, **STAGE_3}
    section |= {named[name]: value for name, value in spec.framework.items() if name in named}
    offload = offloads(spec)
    if offload != "none":
        section["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if offload == "parameters":
        section["offload_param"] = {"device": "cpu", "pin_memory": True}
    return section


def offloads(spec: RunSpec) -> str:
    """`framework.offload`."""
    return str(spec.framework.get("offload", "none"))


def overlaps(spec: RunSpec) -> bool:
    """`framework.overlap_comm`, or DeepSpeed's default."""
    return bool(spec.framework.get("overlap_comm", spec.tuning.sharding_stage == 3))


def element_count(spec: RunSpec, name: str, default: int) -> int:
    """An option that is a number of elements."""
    return int(spec.framework.get(name, default))


def problems_of_options(spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """Options that do not exist, values that they cannot have, and options without effect or device."""
    wrong = list(option_problems("zero", spec.framework, OPTIONS))
    yield from wrong
    if wrong:
        return
    stage = spec.tuning.sharding_stage
    for names, least in ((BUCKETS, 1), (STAGE_3, 3)):
        for name in names:
            if name in spec.framework and stage < least:
                expected = "1, 2 or 3" if least == 1 else "3"
                message = f"{name} is for sharding stage {expected}, found {stage}; the nearest is to leave it out"
                yield Problem(code="zero.option", where=f"framework.{name}", message=message)
    offload = offloads(spec)
    where = "framework.offload"
    if stage < LEAST_STAGE[offload]:
        expected = "1, 2 or 3" if offload == "optimizer" else "3"
        message = f"offload={offload} is for sharding stage {expected}, found {stage}"
        yield Problem(code="zero.offload", where=where, message=f"{message}; nearest: --set offload=none")
    elif offload != "none" and probe.on_cpu:
        message = "states are offloaded from an accelerator to the host: expected 'none' on a CPU"
        yield Problem(code="zero.offload", where=where, message=f"{message}, found {offload!r}; the nearest is 'none'")
    if spec.framework.get("optimizer") == "deepspeed":
        yield from extension_problems("zero", spec, probe, "framework.optimizer", "DeepSpeed's optimiser")
