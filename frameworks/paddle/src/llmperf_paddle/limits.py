"""Options, limits and variables of Paddle, for planning. Imports no paddle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata

from llmperf import (
    OptionCheck,
    architecture_problems,
    expanded_fused_ops,
    family_problem,
    option_problems,
    parallelism_problems,
    setting_problem,
    whole_number,
)
from llmperf.types import Layout, Probe, Problem, RunSpec

OPTIONS: Mapping[str, Sequence[object] | OptionCheck] = {
    "amp_level": ("O1", "O2"),
    "split_param": (False, True),
    "segment_size": whole_number(0),
}
"""`amp_level`: O2 (default) keeps 16-bit weights and float32 master weights, O1 float32 weights.
`split_param`: stage 1 divides each parameter's state evenly (fleet's V2), not whole parameters (V1, the default).
`segment_size`: at stage 3, parameters of at most so many elements stay whole."""
SEGMENT_SIZE = 2**20
"""Paddle's default of `framework.segment_size`."""


def amp_level(options: Mapping[str, object], precision: str) -> str | None:
    """How 16-bit precisions are mixed with float32; None where there is nothing to mix."""
    return str(options.get("amp_level", "O2")) if precision in ("bf16", "fp16") else None


FUSED_OPS = ("rms_norm", "rope", "swiglu")
"""Valid names for `tuning.fused_ops`."""
CPU_FUSED_OPS = ("swiglu",)
"""Those that Paddle has on a CPU, with their backward passes."""
ATTENTION = ("auto", "eager", "sdpa", "flash")
"""Valid values of `tuning.attention`."""
ADAPTED = "3.3.1"
"""The version of Paddle whose gaps on a CPU `gloo.py` fills."""
FAMILIES = ("llama", "qwen2", "qwen3", "gemma3", "chatglm")
"""Families that are built. So are others whose facts are all built."""
PACKED = ("baichuan",)
"""Families whose checkpoints have queries, keys and values in one matrix, which is not built."""
SUPPORTED = (
    *("head_width", "qk_norm", "attention_bias", "window", "query_scale_width", "feed_forward_bias"),
    *("norms_per_block", "norm_offset", "rope_scaling", "rotated_share", "rotated_pairs", "embedding_scale"),
)
"""Facts of a model that are built, whatever its family."""
ACTIVATIONS = ("swiglu", "geglu")
"""Values of `Model.activation` that are built."""
GLOO_SECONDS = 30
"""How long a rank waits for another in Paddle's gloo; fixed there."""


def needs_adapter(layout: Layout) -> bool:
    """Check whether Paddle's gloo cannot run a layout as it is: it can two replicas, with or without stage 1."""
    if layout.world_size == 1:
        return False
    return layout.world_size > 2 or layout.data_parallel != layout.world_size or layout.sharding_stage > 1


def notes(spec: RunSpec, probe: Probe, layout: Layout) -> tuple[str, ...]:
    """Notes for a reader of the result."""
    if not probe.on_cpu or layout.world_size == 1:
        return ()
    return (
        "On a CPU, Paddle's gloo lacks collectives that fleet uses; an adapter replaces them, and the time they take"
        " is not that of an accelerator's.",
    )


def problems(spec: RunSpec, probe: Probe, layout: Layout) -> Iterator[Problem]:
    """Every reason why Paddle cannot run a spec."""
    yield from parallelism_problems("paddle", spec, ("tensor_parallel", "pipeline_parallel"))
    model, tensor = spec.model, spec.tuning.tensor_parallel
    activation = ("activation",) if model.activation in ACTIVATIONS else ()
    unbuilt = list(architecture_problems("paddle", spec, (*SUPPORTED, *activation)))
    if model.family in PACKED or (unbuilt and model.family not in FAMILIES):
        yield family_problem("paddle", spec, FAMILIES, "the nearest is --framework zero, or --set model=llama2_7b")
    elif model.position_encoding != "rope" or model.normalized_head:
        message = f"paddle trains models with rotary positions and a plain head; {model.name} is another"
        yield setting_problem("paddle", "contract.model", f"{message}; the nearest is llama2_7b, or --framework zero")
    else:
        yield from unbuilt
    if model.window is not None and model.window < spec.contract.seq_len and spec.tuning.attention == "flash":
        message = f"Paddle's flash attention has no windows, {model.name} has one of {model.window} tokens"
        yield setting_problem("paddle", "tuning.attention", f"{message}; nearest: --set attention=sdpa")
    if spec.contract.lora is not None:
        message = "paddle trains all weights; framework 'lora' trains adapters"
        yield setting_problem("paddle", "contract.lora", message)
    for what, size in (("vocabulary", model.vocab_size), ("feed-forward width", model.intermediate_size)):
        if size % tensor:
            nearest = max(one for one in range(1, tensor) if _divides_all(one, spec))
            message = f"{model.name} has a {what} of {size}, which tensor parallel {tensor} does not divide"
            yield setting_problem("paddle", "tuning.tensor_parallel", f"{message}; the nearest that does is {nearest}")
    if model.tied_embeddings and (spec.tuning.pipeline_parallel > 1 or spec.tuning.sharding_stage > 1):
        message = f"{model.name} ties its embeddings: expected pipeline parallel 1 and sharding stage 0 or 1"
        yield setting_problem("paddle", "contract.model", f"{message}; the nearest is --set sharding_stage=1")
    stage = spec.tuning.sharding_stage
    if stage == 0 and (spec.tuning.sharding_degree or 1) > 1:
        message = f"sharding_degree {spec.tuning.sharding_degree} needs a sharding_stage: expected 1, 2 or 3, found 0"
        yield setting_problem("paddle", "tuning.sharding_stage", f"{message}; the nearest is 1")
    if stage > 1 and layout.pipeline_parallel > 1:
        message = f"a pipeline keeps its gradients whole: expected sharding stage 0 or 1, found {stage}"
        yield setting_problem("paddle", "tuning.sharding_stage", f"{message}; the nearest is 1")
    if stage == 3 and layout.tensor_parallel > 1:
        message = f"stage 3 shards whole layers: expected tensor parallel 1, found {layout.tensor_parallel}"
        yield setting_problem("paddle", "tuning.sharding_stage", f"{message}; the nearest is stage 2")
    named = [name for name in spec.tuning.fused_ops if name != "auto"]
    if unknown := [name for name in named if name not in FUSED_OPS]:
        message = f"expected some of {', '.join(FUSED_OPS)}, found {', '.join(map(repr, unknown))}"
        yield setting_problem("paddle", "tuning.fused_ops", message)
    elif absent := [name for name in named if name in _absent(spec)]:
        message = (
            f"{spec.model.name} has {spec.model.activation}, not {absent[0]}; nearest: --set 'fused_ops=[\"auto\"]'"
        )
        yield setting_problem("paddle", "tuning.fused_ops", message)
    elif probe.on_cpu and (missing := [name for name in named if name not in CPU_FUSED_OPS]):
        message = f"Paddle has no kernel of {' and '.join(missing)} on a CPU, only of {', '.join(CPU_FUSED_OPS)}"
        message = f"{message}; nearest: --set 'fused_ops=[\"auto\"]'"
        yield setting_problem("paddle", "tuning.fused_ops", message)
    yield from option_problems("paddle", spec.framework, OPTIONS)
    if "amp_level" in spec.framework and spec.contract.precision not in ("bf16", "fp16"):
        message = f"amp_level is for bf16 and fp16, found {spec.contract.precision}; the nearest is to leave it out"
        yield setting_problem("paddle", "framework.amp_level", message)
    for name, stage in (("split_param", 1), ("segment_size", 3)):
        if spec.framework.get(name) and spec.tuning.sharding_stage != stage:
            message = f"{name} is for sharding stage {stage}, found {spec.tuning.sharding_stage}"
            message = f"{message}; the nearest is to leave it out"
            yield Problem(code="paddle.option", where=f"framework.{name}", message=message)
    if spec.tuning.attention not in ATTENTION:
        message = f"paddle has {', '.join(ATTENTION)}, found {spec.tuning.attention}; nearest: --set attention=sdpa"
        yield setting_problem("paddle", "tuning.attention", message)
    if probe.on_cpu:
        yield from _cpu_problems(spec, layout)
    elif spec.tuning.attention == "flash" and spec.contract.precision not in ("bf16", "fp16"):
        message = f"Paddle's flash attention computes in bf16 and fp16, found {spec.contract.precision}"
        yield setting_problem("paddle", "tuning.attention", f"{message}; nearest: --set attention=sdpa")


def _divides_all(parts: int, spec: RunSpec) -> bool:
    model = spec.model
    sizes = (model.vocab_size, model.intermediate_size, model.attention_heads, model.kv_heads)
    return all(size % parts == 0 for size in sizes)


def used_fused_ops(spec: RunSpec, probe: Probe) -> tuple[str, ...]:
    """`tuning.fused_ops` with `auto` expanded."""
    offered = CPU_FUSED_OPS if probe.on_cpu else FUSED_OPS
    return expanded_fused_ops(spec, [name for name in offered if name not in _absent(spec)])


def _absent(spec: RunSpec) -> tuple[str, ...]:
    """Operations that the model does not have."""
    return () if spec.model.activation == "swiglu" else ("swiglu",)


def _cpu_problems(spec: RunSpec, layout: Layout) -> Iterator[Problem]:
    precision = spec.contract.precision
    if precision != "fp32":
        message = f"on a CPU Paddle computes in fp32 whatever it is told: expected fp32, found {precision}"
        yield setting_problem("paddle", "contract.precision", f"{message}; nearest: --set precision=fp32 (a variant)")
    if spec.tuning.attention == "flash":
        message = "flash attention needs an accelerator: expected auto, eager or sdpa on a CPU"
        yield setting_problem("paddle", "tuning.attention", f"{message}; nearest: --set attention=sdpa")
    if spec.framework.get("split_param") is True:
        message = "stage 1 with split_param trains wrongly on a CPU (Paddle 3.3.1): expected False, found True"
        yield setting_problem("paddle", "framework.split_param", f"{message}; the nearest is to leave it out")
    if needs_adapter(layout) and (found := _installed()) not in (None, ADAPTED):
        message = (
            f"on a CPU this layout needs paddlepaddle {ADAPTED}, whose gaps are known; found {found};"
            " the nearest is data parallel over at most 2 ranks, sharding stage 0 or 1"
        )
        yield setting_problem("paddle", "tuning.framework", message)


def _installed() -> str | None:
    """The version of paddlepaddle in this environment, which may not be the workers'; None if it is not here."""
    try:
        return metadata.version("paddlepaddle")
    except metadata.PackageNotFoundError:
        return None


BACKENDS = {"rccl": "nccl", "hccl": "xccl"}
"""Paddle's names of collective backends, where they differ from the vendor's."""
SELECTED = {"nccl": "FLAGS_selected_gpus", "bkcl": "FLAGS_selected_xpus"}
"""The variable that tells a rank which of the node's devices is its own."""


def rank_variables(spec: RunSpec, probe: Probe, layout: Layout) -> dict[str, str]:
    """Variables that `paddle.distributed.launch` would set, without those that fleet does not read.

    The ranks meet at the first endpoint, the agent's MASTER_ADDR and MASTER_PORT. The others are names: fleet wants one
    for each rank, and nothing listens there.
    """
    backend = BACKENDS.get(probe.offers.collective_backend, probe.offers.collective_backend)
    master = "{master_addr}:{master_port}"
    names = [f"{{master_addr}}:{rank}" for rank in range(1, layout.world_size)]
    variables = {
        "PADDLE_TRAINER_ID": "{rank}",
        "PADDLE_TRAINERS_NUM": "{world_size}",
        "PADDLE_RANK_IN_NODE": "{local_rank}",
        "PADDLE_LOCAL_SIZE": "{local_world_size}",
        "PADDLE_GLOBAL_SIZE": "{world_size}",
        "PADDLE_MASTER": master,
        "PADDLE_CURRENT_ENDPOINT": "{master_addr}:{rank}",
        "PADDLE_TRAINER_ENDPOINTS": ",".join([master, *names]),
        "PADDLE_DISTRI_BACKEND": backend,
    }
    return variables | _device_variables(spec, backend)


def _device_variables(spec: RunSpec, backend: str) -> dict[str, str]:
    if backend == "gloo":
        return {"PADDLE_P2P_SYNC_SEND": "1"}  # read when paddle is imported; gloo.py needs it
    if backend not in SELECTED:
        return {}
    variables = {SELECTED[backend]: "{local_rank}"}
    if backend == "nccl" and spec.contract.precision == "fp32":
        variables["NVIDIA_TF32_OVERRIDE"] = "0"  # Paddle lets cuBLAS compute float32 products in TF32 unless told
    return variables
