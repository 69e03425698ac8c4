"""Limits of training with adapters, checked while planning; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from llmperf import setting_problem
from llmperf.types import Problem

from llmperf_lora.options import Options, problems_of_options, read_options

if TYPE_CHECKING:
    from llmperf.types import Layout, Probe, RunSpec


def problems(spec: RunSpec, probe: Probe, layout: Layout) -> Iterator[Problem]:
    """Every reason why a spec cannot run; files are looked at where the run will be on this machine."""
    from llmperf_pytorch.limits import data_parallel_problems

    yield from data_parallel_problems("lora", spec, probe)
    yield from _adapter_problems(spec)
    yield from _sharding_problems(spec, layout)
    wrong = list(problems_of_options(spec.framework))
    yield from wrong
    if not wrong and not probe.simulated:
        yield from _file_problems(spec, read_options(spec))


def _adapter_problems(spec: RunSpec) -> Iterator[Problem]:
    lora = spec.contract.lora
    if lora is None:
        message = "lora trains adapters, the case has none: --set contract.lora.rank=8 (a variant), or --framework zero"
        yield setting_problem("lora", "contract.lora", message)
        return
    if lora.dropout >= 1:
        message = f"expected less than 1, found {lora.dropout}; the published value is 0.05"
        yield setting_problem("lora", "contract.lora.dropout", message)
    if not lora.target_modules:
        message = 'expected at least one projection, found none; the nearest is ["q_proj", "v_proj"]'
        yield setting_problem("lora", "contract.lora.target_modules", message)


def _sharding_problems(spec: RunSpec, layout: Layout) -> Iterator[Problem]:
    if not spec.tuning.sharding_stage:
        return
    if missing := [name for name in ("llmperf_zero", "deepspeed") if find_spec(name) is None]:
        message = (
            f"ZeRO needs the package {missing[0].replace('_', '-')}, which a clone of llmperf has:"
            " ./dev uv sync --inexact; without it the nearest is 0"
        )
        yield setting_problem("lora", "tuning.sharding_stage", message)
        return
    from llmperf_zero.plugin import degree_problems

    yield from degree_problems(layout)


def _file_problems(spec: RunSpec, options: Options) -> Iterator[Problem]:
    if options.base_folder is not None:
        from llmperf_lora.base_folder import folder_problems

        yield from folder_problems(options.base_folder, spec.model)
    if options.mmlu_folder is not None:
        from llmperf_lora.mmlu.prompts import mmlu_problems

        yield from mmlu_problems(options, spec)
