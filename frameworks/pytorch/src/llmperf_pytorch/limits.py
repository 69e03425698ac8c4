"""What the torch frameworks cannot run, found while planning; imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from llmperf import parallelism_problems
from llmperf.types import Problem

if TYPE_CHECKING:
    from llmperf.types import Probe, RunSpec

FLASH = "flash_attention"
FAMILIES = ("llama", "baichuan")
"""Model families that `models.py` has a definition of."""
HALF = ("bf16", "fp16")
"""Precisions that flash kernels compute in."""


def on_cpu(probe: Probe) -> bool:
    """Whether the ranks will compute on a host CPU."""
    return any(device.kind == "cpu" for device in probe.devices)


def needed_features(spec: RunSpec, probe: Probe) -> tuple[str, ...]:
    """What the devices must offer beyond the precision."""
    return (FLASH,) if spec.tuning.attention == "flash" and not on_cpu(probe) else ()


def common_problems(framework: str, spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """What no torch framework that trains all weights, data parallel, can run."""
    if spec.contract.lora is not None:
        message = f"{framework} trains all weights; framework 'lora' trains adapters"
        yield Problem(code="pytorch.lora", where="contract.lora", message=message)
    yield from data_parallel_problems(framework, spec, probe)


def data_parallel_problems(framework: str, spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """What no data-parallel torch framework can run: model parallelism, kernels that are not there."""
    yield from parallelism_problems(framework, spec)
    yield from device_and_model_problems(framework, spec, probe)


def device_and_model_problems(
    framework: str, spec: RunSpec, probe: Probe, families: Sequence[str] = FAMILIES
) -> Iterator[Problem]:
    """What no torch framework can run, however its ranks share the model; `families` are those that it builds."""
    if spec.tuning.fused_ops:
        message = f"{framework} has no fused operations to choose: expected [], found {list(spec.tuning.fused_ops)}"
        yield Problem(code="pytorch.fused_ops", where="tuning.fused_ops", message=message)
    if on_cpu(probe):
        yield from _cpu_problems(spec, probe)
    else:
        yield from flash_problems(spec)
    if spec.model.family in families:
        yield from _model_problems(spec)
    else:
        yield family_problem(framework, spec, families)


def family_problem(framework: str, spec: RunSpec, families: Sequence[str]) -> Problem:
    """A model of a family that a framework has no definition of."""
    message = f"{framework} builds models of family {' and '.join(families)}, found {spec.model.family!r}"
    elsewhere = "; --framework zero builds it" if spec.model.family in FAMILIES else ""
    return Problem(code="pytorch.family", where="model.family", message=f"{message} ({spec.model.name}){elsewhere}")


def flash_problems(spec: RunSpec, nearest: str = "sdpa") -> Iterator[Problem]:
    """Flash attention in 32 bits: kernels compute in 16."""
    if spec.tuning.attention == "flash" and spec.contract.precision not in HALF:
        message = f"flash attention computes in bf16 and fp16, found {spec.contract.precision}"
        yield Problem(
            code="pytorch.attention", where="tuning.attention", message=f"{message}; nearest: --set attention={nearest}"
        )


def _cpu_problems(spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    if spec.contract.precision == "fp16" and "fp16" in probe.offers.precisions:
        message = "fp16 training needs an accelerator; on a CPU the nearest is bf16, the quickest mostly fp32"
        yield Problem(code="pytorch.precision", where="contract.precision", message=message)
    if spec.tuning.attention == "flash":
        message = "flash attention needs an accelerator: expected auto, eager or sdpa on a CPU; the nearest is sdpa"
        yield Problem(code="pytorch.attention", where="tuning.attention", message=message)


def _model_problems(spec: RunSpec) -> Iterator[Problem]:
    model = spec.model
    if model.family == "llama" and (model.position_encoding != "rope" or model.normalized_head):
        message = f"family 'llama' has rotary positions and a plain head; {model.name} asks for others"
        yield Problem(code="pytorch.family", where="model.family", message=message)
    if model.position_encoding == "alibi" and spec.tuning.attention == "flash":
        message = "torch's flash kernel takes no ALiBi: expected auto, eager or sdpa; the nearest is sdpa"
        yield Problem(code="pytorch.attention", where="tuning.attention", message=message)
    if model.family == "baichuan" and model.kv_heads != model.attention_heads:
        message = f"family 'baichuan' has no grouped keys: expected {model.attention_heads}, found {model.kv_heads}"
        yield Problem(code="pytorch.kv_heads", where="model.kv_heads", message=message)


def sharding_problems(spec: RunSpec) -> Iterator[Problem]:
    """Plain data parallel keeps everything on each rank."""
    if spec.tuning.sharding_stage > 0:
        message = (
            f"pytorch replicates the model: expected 0, found {spec.tuning.sharding_stage};"
            f" --framework zero has stage {spec.tuning.sharding_stage}"
        )
        yield Problem(code="pytorch.sharding_stage", where="tuning.sharding_stage", message=message)


def option_problems(
    framework: str, options: Mapping[str, object], known: Mapping[str, tuple[object, ...]]
) -> Iterator[Problem]:
    """Options that the framework does not have, and values they cannot take."""
    for name, value in options.items():
        where = f"framework.{name}"
        if name not in known:
            yield Problem(
                code="pytorch.option", where=where, message=f"{framework} has no such option; {_nearest(name, known)}"
            )
        elif not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in known[name]):
            yield Problem(
                code="pytorch.option", where=where, message=f"expected {_choices(known[name])}, found {value!r}"
            )


def _choices(values: tuple[object, ...]) -> str:
    if values and all(isinstance(one, bool) for one in values):
        return "true or false"
    return f"one of {', '.join(repr(one) for one in values)}"


def _nearest(name: str, known: Mapping[str, object]) -> str:
    if not known:
        return "it has none"
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(sorted(known))}"
