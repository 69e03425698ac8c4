"""Facts and limits of the torch frameworks, for planning; imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import llmperf
from llmperf import OptionCheck, architecture_problems, parallelism_problems, setting_problem
from llmperf.types import Layout, Probe, Problem, RunSpec
from llmperf_torchkit.limits import adapter_problems, compile_problems

from llmperf_pytorch.kernel_limits import (
    attention_problems,
    compiled_block_problems,
    possible_fused_ops,
    recipe_problems,
)

SUPPORTED = tuple(name for name in llmperf.ARCHITECTURE if name not in ("multi_token_layers", "counted"))
"""Facts of a model from which `decoder` is composed, whatever its family."""
PACKED_SUPPORTED = ("activation", "embedding_scale", "feed_forward_bias", "mixture", "norm_offset", "norms_per_block")
"""Those that are possible with Baichuan's one projection of queries, keys and values."""
TORCH_SETTINGS = ("recompute", "recompute_every", "compile")
"""Optional settings of every framework that builds its blocks by `models.py`."""
ENCODINGS = ("rope", "alibi")
"""Position encodings that the definitions have."""
PREFETCH = (0, 1, 2, 3)
"""`framework.prefetch`: for how many blocks ahead FSDP2 gathers parameters while one computes."""
OPTIONS: Mapping[str, Sequence[object] | OptionCheck] = {"prefetch": PREFETCH}
"""Values of each option, or a check such as `llmperf.whole_number(1)`."""


def common_problems(framework: str, spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """Problems of every torch framework that trains all weights, data parallel."""
    yield from adapter_problems(framework, spec)
    yield from data_parallel_problems(framework, spec, probe)


def data_parallel_problems(framework: str, spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """Problems of every data-parallel torch framework: model parallelism, missing kernels, unknown blocks."""
    for problem in parallelism_problems(framework, spec):
        shared = problem.where != "tuning.context_parallel" and spec.contract.lora is None
        others = ", or --framework torchtitan or megatron_core" if shared else ""
        yield replace(problem, message=f"{problem.message}{others}")
    yield from device_problems(framework, spec, probe)
    yield from _model_problems(framework, spec)


def device_problems(framework: str, spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """Problems of every torch framework on these devices."""
    yield from llmperf.fused_op_problems(framework, spec, possible_fused_ops(spec))
    yield from attention_problems(framework, spec, probe)
    yield from compile_problems(framework, spec, probe)
    yield from compiled_block_problems(framework, spec, probe)
    yield from recipe_problems(framework, spec, probe)
    if probe.on_cpu and spec.contract.precision == "fp16" and "fp16" in probe.offers.precisions:
        message = "fp16 training needs an accelerator; on a CPU the nearest is bf16, the quickest mostly fp32"
        yield setting_problem(framework, "contract.precision", message)


def _model_problems(framework: str, spec: RunSpec) -> Iterator[Problem]:
    model = spec.model
    packed = model.family == "baichuan"
    yield from architecture_problems(framework, spec, PACKED_SUPPORTED if packed else SUPPORTED)
    if model.position_encoding not in ENCODINGS:
        message = f"expected one of {', '.join(ENCODINGS)}, found {model.position_encoding!r} ({model.name})"
        yield setting_problem(framework, "model.position_encoding", message)
    if model.position_encoding == "alibi" and (model.sinks or model.window is not None):
        message = f"no kernel takes ALiBi with sinks or windows: expected rope, found alibi ({model.name})"
        yield setting_problem(framework, "model.position_encoding", message)
    if packed and model.kv_heads != model.attention_heads:
        message = f"family 'baichuan' has no grouped keys: expected {model.attention_heads}, found {model.kv_heads}"
        yield setting_problem(framework, "model.kv_heads", message)


def shares_model(layout: Layout) -> bool:
    """Check whether a rank holds only a part of the weights or of the optimiser's states."""
    return bool(layout.sharding_stage) and layout.sharding_degree > 1


def update_bytes_per_parameter(spec: RunSpec, layout: Layout) -> float:
    """Upper bound of FSDP2's memory beside ZeRO's states, in bytes per parameter of a rank's shard.

    Gathered parameters are a copy: the float32 shards stay beside them at stages 1 and 2. In 16 bits ZeRO's count has
    these shards as master weights. Reduced gradients are float32, which ZeRO counts with 2 bytes in 16 bits. At stage 1
    the reduced gradients of a block take the place of the larger ones that the rank has added up.
    """
    if not shares_model(layout):
        return 0.0
    recipe = llmperf.precision_recipe(spec.contract.precision)
    half, stage = recipe.rest_bytes == 2, layout.sharding_stage
    if half and recipe.master_weights is None:
        return {1: 2.0, 2: 2.0, 3: 0.0}[stage]
    return {1: 0.0, 2: 2.0, 3: 0.0}[stage] if half else {1: 4.0, 2: 4.0, 3: 0.0}[stage]


def gathered_blocks(spec: RunSpec, layout: Layout) -> int:
    """Blocks whose sharded parameters are gathered at once: the one that computes, and those gathered ahead."""
    ahead = spec.framework.get("prefetch", 1)
    return 1 + int(ahead) if layout.sharding_stage == 3 and ahead in PREFETCH else 0


def prefetch_problems(spec: RunSpec, layout: Layout) -> Iterator[Problem]:
    """The option of FSDP2 without sharding."""
    if "prefetch" in spec.framework and not shares_model(layout):
        depth = spec.framework["prefetch"]
        message = f"only sharded blocks are gathered ahead: expected no such option at sharding stage 0, found {depth}"
        yield setting_problem("pytorch", "framework.prefetch", message)
