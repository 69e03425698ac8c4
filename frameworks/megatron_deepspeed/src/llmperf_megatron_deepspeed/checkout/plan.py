"""The engine's part of the plan: the script's command, its configuration, what it cannot run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import llmperf
from llmperf import architecture_problems, family_problem, option_problems, parallelism_problems, setting_problem
from llmperf.types import Layout, Probe, Problem, RunSpec, Script, WorkerPlan
from llmperf_pytorch.kernel_limits import precision_problems
from llmperf_torchkit.limits import adapter_problems, torch_worker

from llmperf_megatron_deepspeed.checkout.command import CONFIG, ds_config, pretrain_arguments, uses_apex
from llmperf_megatron_deepspeed.checkout.home import (
    OPTION,
    WHERE,
    chosen_home,
    defect_notes,
    defect_problems,
    describe,
    home_problem,
    missing_options,
)

BACKENDS = ("nccl", "gloo", "ccl", "hccl")
"""Values of `--distributed-backend`."""
NAME = "megatron_deepspeed"
OPTIONS = {"engine": ("builtin", "checkout")}
NEAREST_ENGINE = "the nearest is --set framework.engine=builtin"
FUSED_IN_SCRIPT = ("auto", "rms_norm")
"""`rms_norm`: the script takes apex's where apex is installed."""
ATTENTION = ("auto", "eager", "flash")
"""Attention implementations of `pretrain_gpt.py`."""


def checkout_problems(
    spec: RunSpec, probe: Probe, layout: Layout, home: Path | None, arguments: tuple[str, ...]
) -> Iterator[Problem]:
    """Every reason why the script cannot run the spec."""
    options = {name: value for name, value in spec.framework.items() if name != OPTION}
    yield from option_problems(NAME, options, {**OPTIONS, OPTION: ()}, title="megatron_deepspeed, engine checkout,")
    if (message := home_problem(home)) is not None:
        yield Problem(code=f"{NAME}.checkout", where=WHERE, message=message)
    elif home is not None and (missing := missing_options(home, arguments)):
        message = f"the checkout {home} is of another kind or age: pretrain_gpt.py has no {', '.join(missing)}"
        message = f"{message}; the nearest that has is its last commit, 4efb479d"
        yield Problem(code=f"{NAME}.checkout", where=WHERE, message=message)
    if home is not None:
        yield from defect_problems(home, spec, layout)
    yield from parallelism_problems(NAME, spec, ("tensor_parallel", "pipeline_parallel"))
    model, tensor = spec.model, layout.tensor_parallel
    if model.family != "llama":
        yield family_problem(NAME, spec, ("llama",), "--framework zero builds it")
    elif model.position_encoding != "rope" or model.normalized_head:
        message = f"pretrain_gpt.py trains models with rotary positions and a plain head, found {model.name}"
        yield setting_problem(NAME, "contract.model", message)
    elif model.rope_theta is not None and model.rope_theta != int(model.rope_theta):
        message = f"--rotary-position-embeddings-theta takes a whole number, found {model.rope_theta}"
        yield setting_problem(NAME, "model.rope_theta", f"{message}; {NEAREST_ENGINE}")
    else:
        yield from architecture_problems(NAME, spec)
    if model.vocab_size % tensor:
        message = f"{model.vocab_size} rows of the embedding do not divide over tensor parallel {tensor}: the script"
        yield setting_problem(NAME, "tuning.tensor_parallel", f"{message} would pad them; {NEAREST_ENGINE}")
    yield from adapter_problems(NAME, spec)
    adam, steps = spec.contract.optimizer, spec.contract.steps
    if adam.warmup_steps >= steps:
        message = f"the script warms up for fewer steps than it trains: expected less than {steps}, found"
        message = f"{message} {adam.warmup_steps}; the nearest is {steps - 1}"
        yield Problem(code=f"{NAME}.schedule", where="contract.optimizer.warmup_steps", message=message)
    if adam.min_lr > adam.lr:
        message = f"expected at most lr {adam.lr}, found {adam.min_lr}; the nearest is {adam.lr}"
        yield setting_problem(NAME, "contract.optimizer.min_lr", message)
    tuning, stages = spec.tuning, (1,) if layout.pipeline_parallel > 1 else (0, 1, 2)
    if tuning.sharding_stage not in stages:
        why = "with pipeline stages" if layout.pipeline_parallel > 1 else "without pipeline stages"
        message = f"expected {' or '.join(map(str, stages))} {why}, found {tuning.sharding_stage}"
        yield setting_problem(NAME, "tuning.sharding_stage", f"{message}; the nearest is {stages[-1]}")
    elif tuning.sharding_stage and layout.sharding_degree != layout.data_parallel:
        message = f"ZeRO shards over all data-parallel ranks: expected {layout.data_parallel}, found"
        message = f"{message} {layout.sharding_degree}; the nearest is {layout.data_parallel}"
        yield setting_problem(NAME, "tuning.sharding_degree", message)
    if tuning.attention not in ATTENTION:
        message = f"pretrain_gpt.py has its own kernels: expected {', '.join(ATTENTION)}, found {tuning.attention}"
        nearest = "eager" if probe.on_cpu else "flash"
        yield setting_problem(NAME, "tuning.attention", f"{message}; the nearest is {nearest}")
    if named := [name for name in tuning.fused_ops if name not in FUSED_IN_SCRIPT]:
        message = f"the script's kernels are built into the checkout, so none is used: found {named}"
        yield setting_problem(NAME, "tuning.fused_ops", f"{message}; the nearest is []")
    yield from _device_problems(spec, probe)


def _device_problems(spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    backend = probe.offers.collective_backend
    if spec.contract.precision == "tf32":
        message = "pretrain_gpt.py has no switch for it: expected fp32, bf16 or fp16, found tf32"
        yield setting_problem(NAME, "contract.precision", f"{message}; {NEAREST_ENGINE}")
    if probe.on_cpu:
        if spec.contract.precision == "fp16":
            message = "fp16 training needs an accelerator; on a CPU the nearest is bf16, the quickest mostly fp32"
            yield setting_problem(NAME, "contract.precision", message)
        if spec.tuning.attention == "flash":
            message = "flash attention needs an accelerator: expected auto or eager on a CPU; the nearest is eager"
            yield setting_problem(NAME, "tuning.attention", message)
    else:
        yield from precision_problems(NAME, spec, nearest="eager")
    if not probe.on_cpu and backend not in BACKENDS:
        message = f"pretrain_gpt.py communicates by {', '.join(BACKENDS)}; the devices offer {backend}"
        yield setting_problem(NAME, "framework.engine", f"{message}; {NEAREST_ENGINE}")
    if not probe.simulated:
        if uses_apex(probe) and find_spec("apex") is None:
            message = "pretrain_gpt.py takes its optimiser from apex on this device, which is not installed"
            yield setting_problem(NAME, "framework.engine", f"{message}; {NEAREST_ENGINE}")
        if spec.tuning.attention == "flash" and not probe.on_cpu and find_spec("flash_attn") is None:
            message = "--use-flash-attn-v2 needs flash_attn, which is not installed"
            yield setting_problem(NAME, "tuning.attention", f"{message}; the nearest is eager")


START = "llmperf_megatron_deepspeed.checkout.start"

RANK_ENVIRONMENT = {
    "LOCAL_SIZE": "{local_world_size}",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "HF_HUB_OFFLINE": "1",
}
"""Variables for DeepSpeed and the script; everything that the script may load is local."""

OWN_WEIGHTS = (
    "initial weights are the script's own draw, not llmperf's: losses of the first steps differ from other frameworks'"
)
OWN_WARM_UP = (
    "the script's learning rate begins at 0 and is one step behind llmperf's while it warms up; then they are the same"
)


def plan_checkout(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """One process of `pretrain_gpt.py` a device, started and watched by llmperf's own agent."""
    layout = llmperf.standard_layout(spec)
    home = chosen_home(spec.framework)
    arguments = pretrain_arguments(spec, probe, layout)
    problems = tuple(checkout_problems(spec, probe, layout, home, arguments))
    program = ("{python}", *(("-P",) if sys.version_info >= (3, 11) else ()), "-m", START)
    return torch_worker(
        spec,
        probe,
        layout,
        rank_env=RANK_ENVIRONMENT,
        files={CONFIG: ds_config(spec, layout)},
        script=Script(command=(*program, "{run_dir}", str(home), *arguments), step_rank=layout.world_size - 1),
        notes=() if problems or home is None else _notes(spec, home),
        problems=problems,
    )


def _notes(spec: RunSpec, home: Path) -> tuple[str, ...]:
    warms_up = spec.contract.optimizer.warmup_steps > 0
    return (describe(home), OWN_WEIGHTS, *((OWN_WARM_UP,) if warms_up else ()), *defect_notes(home))
