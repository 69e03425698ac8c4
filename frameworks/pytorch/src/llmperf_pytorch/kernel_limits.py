"""Kernels, precision recipes and compilers of the torch frameworks by device, and the settings that they refuse.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import llmperf
from llmperf import setting_problem
from llmperf.types import Model, Precision, Probe, Problem, RunSpec
from llmperf_torchkit.limits import elsewhere

RECIPES: tuple[Precision, ...] = (
    "fp32",
    "tf32",
    "bf16",
    "bf16_pure",
    "fp16",
    "fp8_tensorwise",
    "fp8_rowwise",
    "fp8_blockwise",
)
"""Those of frameworks that train all weights."""
BLOCKWISE_ON = (9, 0)
"""The one compute capability that torchao's kernels run on (prototype/blockwise_fp8_training, 0.18)."""
NO_CAPABILITY = (0, 0)
"""Compute capability of devices that are not NVIDIA's."""
MULTIPLES = {"tensorwise": 16, "rowwise": 16, "blockwise": 128}
"""Required divisors of the widths of weights for products in fp8 (torch's scaled_mm; a block)."""


def recipe_problems(framework: str, spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """Models and machines on which a recipe cannot be trained by."""
    recipe, tuning = llmperf.precision_recipe(spec.contract.precision), spec.tuning

    def problem(reason: str) -> Problem:
        message = f"{recipe.name}: {reason}; nearest: --set precision=bf16"
        return setting_problem(framework, "contract.precision", message)

    if recipe.name == "bf16_pure" and tuning.accumulation_dtype == "fp32":
        yield problem("gradients are added up in bf16: expected accumulation_dtype auto")
    if recipe.products != "fp8":
        return
    if spec.model.mixture is not None:
        yield problem(f"experts are not computed in fp8, and {spec.model.name} is a mixture: expected a dense model")
    multiple = MULTIPLES[recipe.scaling]
    odd = [width for width in projection_widths(spec.model) if width % multiple]
    if odd and not tuning.emulate_precision:
        yield problem(f"widths must be multiples of {multiple}, and {spec.model.name} has {odd[0]}")
    if recipe.scaling == "blockwise" and not tuning.emulate_precision and capability(probe) != BLOCKWISE_ON:
        yield problem("torchao's blockwise kernels run on compute capability 9.0 only: expected fp8_rowwise here")
    by_torchao = recipe.scaling != "blockwise" or not tuning.emulate_precision
    if by_torchao and not elsewhere(spec, probe) and find_spec("torchao") is None:
        yield problem("needs torchao, which is not installed (pip install llmperf-pytorch[fp8])")


def capability(probe: Probe) -> tuple[int, ...]:
    """CUDA's compute capability of the devices; (0, 0) for devices without one."""
    text = probe.devices[0].details.get("compute_capability", "0.0")
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


def projection_widths(model: Model) -> tuple[int, ...]:
    """Rows and columns of the projections of dense blocks."""
    heads, keys = model.attention_heads, model.kv_heads
    attention: tuple[int, ...] = (heads * model.query_width, keys * model.query_width, keys * model.value_width)
    if model.latent is not None:
        latent = model.latent
        ranks = (latent.q_rank or model.hidden_size, latent.kv_rank, latent.kv_rank + latent.rope_width)
        attention = (heads * model.query_width, heads * (latent.nope_width + latent.value_width), *ranks)
    return (model.hidden_size, *attention, heads * model.value_width, model.intermediate_size)


HALF = ("bf16", "fp16")
"""Dtypes that flash and cuDNN attention compute in."""
NAMES = {
    "flash": "flash attention",
    "efficient": "memory-efficient attention",
    "cudnn": "cuDNN's attention",
    "flex": "FlexAttention",
}
"""Values of `tuning.attention` that need an accelerator."""
FUSED_OPS = ("rms_norm", "rope", "swiglu", "cross_entropy")
GROUPED_SINCE = (9, 0)
"""CUDA's compute capability from which torch has one kernel for the products of all experts; below it torch 2.8 refuses
them, and later versions loop over the experts."""
WITHOUT_BIAS = ("flash", "cudnn")
"""Those that take neither ALiBi nor windows."""


def attention_problems(framework: str, spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """A kernel that the devices, the precision or the model's positions rule out; the first reason only."""
    attention, window, bias = spec.tuning.attention, spec.model.window, None
    if spec.model.position_encoding == "alibi":
        bias = "ALiBi"
    elif window is not None and window < spec.contract.seq_len:
        bias = f"window of {window} tokens"
    if probe.on_cpu and attention in NAMES:
        message = f"{NAMES[attention]} needs an accelerator: expected auto, eager or sdpa on a CPU; the nearest is sdpa"
        yield setting_problem(framework, "tuning.attention", message)
    elif attention in WITHOUT_BIAS and bias is not None:
        message = (
            f"torch's {attention} kernel takes no {bias}: expected auto, eager, sdpa, efficient or flex; the nearest is"
            " sdpa"
        )
        yield setting_problem(framework, "tuning.attention", message)
    else:
        yield from precision_problems(framework, spec)


def precision_problems(framework: str, spec: RunSpec, nearest: str = "sdpa") -> Iterator[Problem]:
    """Kernels that compute in 16 bits, where attention is computed in 32; recipes with fp8 compute it in 16."""
    attention, precision = spec.tuning.attention, spec.contract.precision
    if attention in ("flash", "cudnn") and llmperf.precision_recipe(precision).rest not in HALF:
        message = f"{NAMES[attention]} computes in bf16 and fp16, found {precision}"
        message = f"{message}; nearest: --set attention={nearest}"
        yield setting_problem(framework, "tuning.attention", message)


def possible_fused_ops(spec: RunSpec) -> tuple[str, ...]:
    """Valid names for `tuning.fused_ops` on every device: operations that the model has."""
    absent = {"rope": spec.model.position_encoding != "rope", "swiglu": spec.model.activation != "swiglu"}
    return tuple(name for name in FUSED_OPS if not absent.get(name))


def used_fused_ops(framework: str, spec: RunSpec) -> tuple[str, ...]:
    """Those of a run.

    `auto` is all that are possible. Where whole blocks are compiled, the compiler fuses rotary positions and SwiGLU
    with what is around them.
    """
    possible = possible_fused_ops(spec)
    if spec.tuning.compile:
        possible = tuple(name for name in possible if name not in ("rope", "swiglu"))
    return llmperf.expanded_fused_ops(spec, possible)


def has_grouped_products(probe: Probe) -> bool:
    """Check whether one kernel computes the products of all experts, without the host waiting for each."""
    return not probe.on_cpu and (capability(probe) >= GROUPED_SINCE or capability(probe) == NO_CAPABILITY)


def expert_notes(spec: RunSpec, probe: Probe) -> tuple[str, ...]:
    """Notes on a mixture for devices that compute its experts one by one."""
    if spec.model.mixture is None or probe.on_cpu or has_grouped_products(probe):
        return ()
    return (
        f"experts: one matrix product for each on {probe.devices[0].model}, and the host waits for their sizes in every"
        " layer: torch groups the products of experts from compute capability 9.0 on",
    )


def compiled_block_problems(framework: str, spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """Where a block cannot be compiled as a whole."""
    tuning = spec.tuning
    if not tuning.compile:
        return
    without = "nearest: --set compile=false"
    reasons = []
    if tuning.sharding_stage == 3 and framework != "pytorch":
        reasons.append("ZeRO-3 gathers weights in hooks inside a block, which torch.compile cannot follow")
    if tuning.tensor_parallel > 1:
        reasons.append("ranks that share a block communicate inside it, which is not compiled")
    if spec.model.mixture is not None and not has_grouped_products(probe):
        reasons.append("on these devices each expert has a product of its own, of as many rows as it gets tokens")
    if tuning.gradient_checkpointing and tuning.recompute == "operations":
        reasons.append("in a compiled block the compiler chooses what is kept: expected recompute block")
    if spec.contract.warmup_steps == 0:
        reasons.append(
            "blocks are compiled in the first step, which must be a warm-up step: expected warmup_steps >= 1"
        )
    for reason in reasons:
        yield setting_problem(framework, "tuning.compile", f"{reason}; {without}")
