"""Limits of options and of training with adapters, and notes on them, for planning; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec

from llmperf import OptionCheck, option_problems, setting_problem, whole_number
from llmperf.types import Layout, Probe, Problem, RunSpec

from llmperf_lora.options import SPLITS, read_options


def problems_of_options(given: Mapping[str, object]) -> Iterator[Problem]:
    """Options that are not there, and values they cannot take."""
    yield from option_problems("lora", given, CHECKS)


def _folder(value: object) -> str | None:
    return None if isinstance(value, str) and value else "the path of a folder"


CHECKS: Mapping[str, Sequence[object] | OptionCheck] = {
    "base_weights": _folder,
    "save_adapter": (True, False),
    "mmlu": _folder,
    "mmlu_shots": whole_number(0),
    "mmlu_split": SPLITS,
    "mmlu_limit": whole_number(1),
    "mmlu_batch": whole_number(1),
}
"""The valid values of each option, or a check of its value."""


def notes(spec: RunSpec) -> Iterator[str]:
    """Where the base weights come from, and how MMLU is measured."""
    options = read_options(spec)
    if options.base_weights is None:
        yield (
            "base weights: deterministic initialisation from the seed, not pretrained; throughput and memory do not"
            " depend on them, losses and accuracies do"
        )
    else:
        yield f"base weights: read from {options.base_weights}"
    if options.mmlu is not None:
        share = "all questions" if options.mmlu_limit is None else f"at most {options.mmlu_limit} questions"
        yield (
            f"MMLU: {options.mmlu_split} split, {options.mmlu_shots} shots, {share} of each subject, by the likelihood"
            " of A to D; mmlu_before is measured after the training too, with the adapters switched off: the base"
            " weights are frozen, so it is the figure before the training"
        )


def problems(spec: RunSpec, probe: Probe, layout: Layout) -> Iterator[Problem]:
    """Every reason why a spec cannot run; files are looked at where the run will be on this machine."""
    from llmperf_pytorch.limits import data_parallel_problems

    yield from data_parallel_problems("lora", spec, probe)
    yield from _adapter_problems(spec)
    yield from _sharding_problems(spec, layout)
    wrong = list(problems_of_options(spec.framework))
    yield from wrong
    if not wrong and not probe.simulated:
        options = read_options(spec)
        if options.base_folder is not None:
            from llmperf_lora.base_folder import folder_problems

            yield from folder_problems(options.base_folder, spec.model)
        if options.mmlu_folder is not None:
            from llmperf_lora.mmlu.prompts import mmlu_problems

            yield from mmlu_problems(options, spec)


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
