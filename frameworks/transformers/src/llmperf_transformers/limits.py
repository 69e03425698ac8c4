"""Models, settings and devices on which transformers cannot train a case; imports neither torch nor transformers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec

import llmperf
from llmperf import setting_problem
from llmperf.errors import UserError
from llmperf.types import Layout, Precision, Probe, Problem, RunSpec
from llmperf_pytorch.kernel_limits import has_grouped_products
from llmperf_pytorch.limits import PREFETCH, shares_model
from llmperf_torchkit.limits import adapter_problems, compile_problems

RECIPES: tuple[Precision, ...] = ("fp32", "tf32", "bf16", "bf16_pure", "fp16")
OPTIONS = {
    "prefetch": PREFETCH,
    "engine": ("fsdp2", "deepspeed"),
    "experts": ("eager", "batched_mm", "grouped_mm"),
}
"""`engine`: what shards at stages 1 to 3. `experts`: `experts_implementation` of transformers."""
ATTENTION = {
    "auto": "sdpa",
    "sdpa": "sdpa",
    "eager": "eager",
    "flash": "flash_attention_2",
    "flex": "flex_attention",
}
"""`attn_implementation` of transformers by `tuning.attention`."""
ALWAYS_SHARED = ("deepseek_v2", "deepseek_v3")
CPU_ATTENTION = ("auto", "sdpa", "eager")
ARCHITECTURE = tuple(name for name in llmperf.ARCHITECTURE if name not in ("multi_token_layers", "counted"))


def by_deepspeed(spec: RunSpec) -> bool:
    """Check whether DeepSpeed's engine trains."""
    return spec.framework.get("engine") == "deepspeed"


def counted_notes(spec: RunSpec) -> tuple[str, ...]:
    """The program that counted the FLOPs of a model, and what it does not see."""
    if (counted := spec.model.counted) is None:
        return ()
    return ("; ".join((f"FLOPs are counted by {counted.counted_by}", *counted.caveats)),)


def attention_of(spec: RunSpec) -> str | None:
    """`attn_implementation`; transformers has no sinks in torch's scaled_dot_product_attention.

    None: the class of a counted model chooses.
    """
    if spec.model.counted is not None and spec.tuning.attention == "auto":
        return None
    return "eager" if spec.model.sinks and spec.tuning.attention == "auto" else ATTENTION[spec.tuning.attention]


def problems(spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """Every reason why transformers cannot train a case on these devices."""
    from llmperf_huggingface.export import huggingface_config
    from llmperf_huggingface.importing import made
    from llmperf_huggingface.reading import expressed

    problem, tuning, contract = partial(setting_problem, "transformers"), spec.tuning, spec.contract
    try:
        config = huggingface_config(spec.model)
        if spec.model.counted is None:  # what its class builds, by what its configuration is read as
            model = made(expressed(config, "configuration"), spec.model.name, "configuration").model
            for key in (key for key in ARCHITECTURE if getattr(model, key) != getattr(spec.model, key)):
                message = f"transformers has no class of family {spec.model.family} with this {key}"
                yield problem(f"model.{key}", f"{message} ({spec.model.name}); nearest: --framework pytorch")
    except UserError as error:
        yield problem("model.family", str(error).removeprefix("model.family: "))
    mixture = spec.model.mixture
    if mixture is not None and spec.model.family in ALWAYS_SHARED and not mixture.shared_experts:
        message = (
            f"transformers' classes of family {spec.model.family} have shared experts: expected 1 or more, found 0"
        )
        yield problem("model.mixture.shared_experts", f"{message}; nearest: --framework pytorch")
    if spec.model.multi_token_layers:
        yield problem(
            "model.multi_token_layers", "no class of transformers trains them: expected 0; nearest: --framework pytorch"
        )
    yield from adapter_problems("transformers", spec)
    yield from llmperf.parallelism_problems("transformers", spec)
    yield from llmperf.fused_op_problems("transformers", spec, ())
    yield from llmperf.option_problems("transformers", spec.framework, OPTIONS)
    yield from compile_problems("transformers", spec, probe)
    layout = llmperf.standard_layout(spec)
    if "prefetch" in spec.framework and (by_deepspeed(spec) or not shares_model(layout)):
        yield problem("framework.prefetch", "only FSDP2, at stages 1 to 3, gathers ahead: expected no such option")
    if by_deepspeed(spec):
        yield from _deepspeed_problems(spec, layout)
    if "experts" in spec.framework and spec.model.mixture is None and spec.model.counted is None:
        yield problem("framework.experts", f"{spec.model.name} is dense: expected no such option")
    possible = CPU_ATTENTION if probe.on_cpu else tuple(ATTENTION)
    if spec.model.sinks:
        possible = tuple(name for name in possible if name != "sdpa")
    if tuning.attention not in possible:
        reason = "with sinks" * spec.model.sinks or "on a CPU" * probe.on_cpu or "by transformers"
        message = f"expected one of {', '.join(possible)} {reason}, found {tuning.attention}; the nearest is auto"
        yield problem("tuning.attention", message)
    if tuning.compile and spec.model.mixture is not None and not has_grouped_products(probe):
        message = "on these devices each expert has a product of its own; nearest: --set compile=false"
        yield problem("tuning.compile", message)
    if tuning.compile and contract.routing != "learned":
        message = f"routing {contract.routing} replaces a function of compiled blocks; nearest: --set compile=false"
        yield problem("tuning.compile", message)
    if tuning.compile and tuning.gradient_checkpointing:
        message = "transformers' gradient checkpointing is not compiled; nearest: --set compile=false"
        yield problem("tuning.compile", message)
    if tuning.compile and contract.warmup_steps == 0:
        message = "blocks are compiled in the first step: expected warmup_steps >= 1; nearest: --set compile=false"
        yield problem("tuning.compile", message)
    if contract.precision == "bf16_pure" and tuning.accumulation_dtype == "fp32":
        yield problem("contract.precision", "bf16_pure: gradients are added up in bf16; nearest: --set precision=bf16")
    if probe.on_cpu and contract.precision == "fp16":
        yield problem("contract.precision", "fp16 training needs an accelerator; on a CPU the nearest is bf16")


def _deepspeed_problems(spec: RunSpec, layout: Layout) -> Iterator[Problem]:
    """What DeepSpeed's engine cannot do, or its absence."""
    if missing := [name for name in ("llmperf_zero", "deepspeed") if find_spec(name) is None]:
        message = f"deepspeed needs the package {missing[0].replace('_', '-')}; without it the nearest is fsdp2"
        yield setting_problem("transformers", "framework.engine", message)
        return
    from llmperf_zero.plugin import accumulation_problems, degree_problems, precision_problems

    yield from degree_problems(layout)
    yield from accumulation_problems("transformers", spec)
    yield from precision_problems(spec)
