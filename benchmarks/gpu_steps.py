"""Steps of the acceptance on a GPU, the most informative first; `gpu_acceptance.py` runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Settings = Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the acceptance."""

    name: str
    """Purpose of the step."""
    kind: Literal[
        "doctor", "tests", "run", "estimate", "waits", "out of memory", "peak", "profile", "tune", "attention"
    ]
    """How it is done."""
    expected_seconds: float
    """So much time must be left for it to start."""
    limit_seconds: float
    """It has failed if it takes longer."""
    case: str = "default"
    """Of a run."""
    framework: str = "pytorch"
    """Of a run."""
    settings: Settings = field(default_factory=dict)
    """Of a run."""
    argv: tuple[str, ...] = ()
    """For tests: words after `pytest`. For a measurement: further options."""
    of: str | None = None
    """For an estimate: the step whose run is estimated. For a run: the step that it is compared with."""


DENSE: Settings = {
    "model": "tinyllama_1b",
    "seq_len": 2048,
    "global_batch": 8,
    "micro_batch": 4,
    "sharding_stage": 0,
    "precision": "bf16",
    "steps": 25,
    "warmup_steps": 5,
}
LORA: Settings = {
    "dataset": "synthetic",
    "global_batch": 4,
    "micro_batch": 4,
    "precision": "bf16",
    "steps": 25,
    "warmup_steps": 5,
}
SMALL: Settings = {
    **{"model": "llama_tiny", "seq_len": 64, "global_batch": 4, "micro_batch": 2},
    **{"precision": "fp32", "steps": 4, "warmup_steps": 1},
}
GPU_TESTS = (
    "frameworks/kit/tests",
    "frameworks/pytorch/tests",
    "frameworks/zero/tests",
    "frameworks/lora/tests",
    "frameworks/megatron_deepspeed/tests",
    "vendors/nvidia/tests",
)
MIXTURE = str(Path(__file__).with_name("gpt_oss_1b.toml"))
"""A mixture with sinks and windows whose weights can all be trained on one device."""
OFF = "[]"
"""`fused_ops`: none of the kernels that a framework uses by default."""


def steps(*, small: bool) -> list[Step]:
    """All steps in their order; with `small` the same on the CPU, with a tiny model and few steps."""
    dense, lora = dict(DENSE), dict(LORA)
    if small:
        dense |= SMALL
        lora |= SMALL

    def run(name: str, framework: str = "zero", of: str | None = None, **settings: str | int | bool) -> Step:
        is_lora = framework == "lora"
        return Step(
            name=name,
            kind="run",
            expected_seconds=75 if is_lora and not small else 55,
            limit_seconds=240,
            case="llama2_7b_lora" if is_lora else "default",
            framework=framework,
            settings={**(lora if is_lora else dense), **settings},
            of=of,
        )

    def estimate(of: str) -> Step:
        return Step(name=f"estimate of {of}", kind="estimate", expected_seconds=40, limit_seconds=240, of=of)

    def engine(name: str, of: str | None = None, **settings: str | int | bool) -> Step:
        return run(name, "megatron_deepspeed", of, sharding_stage=1, micro_batch=2, **settings)

    def measure(kind: Literal["peak", "profile", "tune"], expected: float, *argv: str) -> Step:
        searched = {word.partition("=")[0] for word in argv}
        settings = {} if kind == "peak" else {name: dense[name] for name in dense if name not in searched}
        return Step(
            name=kind, kind=kind, expected_seconds=expected, limit_seconds=3 * expected, settings=settings, argv=argv
        )

    waits = Step(name="host waits", kind="waits", expected_seconds=60, limit_seconds=200)
    mixture = "gpt_oss_tiny" if small else MIXTURE
    quick = ("--model", "llama_tiny", "--seconds", "0.02") if small else ()
    first = [
        Step(name="doctor", kind="doctor", expected_seconds=20, limit_seconds=100),
        measure("peak", 60, *quick),
        Step(name="attention kernels", kind="attention", expected_seconds=15, limit_seconds=100),
        run("pytorch", "pytorch"),
        estimate("pytorch"),
    ]
    if small:
        return [
            *first,
            run("ZeRO-1", sharding_stage=1),
            run("LoRA", "lora"),
            estimate("ZeRO-1"),
            estimate("LoRA"),
            waits,
            run("pytorch, no kernels", "pytorch", "pytorch", fused_ops=OFF),
            run("mixture", "pytorch", model=mixture),
            run("mixture, skewed", "pytorch", "mixture", model=mixture, routing="skewed"),
            measure("profile", 40),
            measure("tune", 60, "--search", "micro_batch=1,2", "--trials", "2", "--steps", "2", "--warmup-steps", "1"),
        ]
    compiled = {"compile": True}
    return [
        *first,
        run("pytorch, compiled", "pytorch", "pytorch", **compiled),
        run("cuDNN attention", "pytorch", "pytorch", attention="cudnn"),
        run("flex attention", "pytorch", "pytorch", attention="flex"),
        run("fp8, rowwise", "pytorch", "pytorch", precision="fp8_rowwise", **compiled),
        run("mixture", "pytorch", model=mixture, micro_batch=2),
        estimate("mixture"),
        measure("profile", 60),
        Step(name="tests", kind="tests", expected_seconds=200, limit_seconds=480, argv=GPU_TESTS),
        run("LoRA", "lora"),
        estimate("LoRA"),
        run("ZeRO-1", sharding_stage=1),
        estimate("ZeRO-1"),
        estimate("pytorch, compiled"),
        estimate("fp8, rowwise"),
        waits,
        run("pytorch, no kernels", "pytorch", "pytorch", fused_ops=OFF),
        run("mixture, flex attention", "pytorch", "mixture", model=mixture, micro_batch=2, attention="flex"),
        run("mixture, skewed", "pytorch", "mixture", model=mixture, micro_batch=2, routing="skewed"),
        run("fp8, tensorwise", "pytorch", "pytorch", precision="fp8_tensorwise", **compiled),
        engine("pipeline engine"),
        Step(
            name="out of memory",
            kind="out of memory",
            expected_seconds=60,
            limit_seconds=200,
            settings={**dense, "global_batch": 256, "micro_batch": 256},
        ),
        measure("tune", 200, "--search", "micro_batch=1,2,4,8", "--search", "compile=false,true", "--trials", "4"),
        run("best known, dense", "pytorch", "pytorch", micro_batch=8, attention="cudnn", **compiled),
        run("bf16 weights", "pytorch", "pytorch", precision="bf16_pure"),
        run("recomputed", "pytorch", "pytorch", gradient_checkpointing=True, micro_batch=8),
        run("LoRA, fp16", "lora", "LoRA", precision="fp16"),
        run("ZeRO-3", of="ZeRO-1", sharding_stage=3),
        estimate("ZeRO-3"),
        run("ZeRO-1, fp16", of="ZeRO-1", sharding_stage=1, precision="fp16"),
        run("mixture, compiled", "pytorch", "mixture", model=mixture, micro_batch=2, **compiled),
        run("ZeRO-2", of="ZeRO-1", sharding_stage=2),
    ]
