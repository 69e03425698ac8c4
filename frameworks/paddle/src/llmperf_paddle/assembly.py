"""Model and optimiser, built for a layout and wrapped by fleet as production does.

Fleet has the ranks in llmperf's order: tensor parallel fastest, then data (sharding fastest), then pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import paddle
from llmperf import decays
from llmperf.types import Optimizer, Plan, RunSpec
from paddle import nn
from paddle.base import core
from paddle.distributed import fleet, is_initialized, sharding
from paddle.distributed.collective import Group
from paddle.nn import ClipGradByGlobalNorm
from paddle.nn.clip import _squared_l2_norm

from llmperf_paddle import gloo
from llmperf_paddle.blocks import Design
from llmperf_paddle.cpu_fleet import group_sharded
from llmperf_paddle.decoder import Decoder, pipelined
from llmperf_paddle.gloo import check_port, choose_interface, confine_stores
from llmperf_paddle.layers import DividedLayers, Layers
from llmperf_paddle.limits import SEGMENT_SIZE, amp_level
from llmperf_paddle.weights import count_parameters, fill_weights, named

DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


class Mixing:
    """Mixed precision of one run."""

    def __init__(self, spec: RunSpec) -> None:
        self._precision = spec.contract.precision
        self._level = amp_level(spec.framework, self._precision)

    @property
    def master_weights(self) -> bool:
        """Weights are 16 bits, with float32 copies for the optimiser."""
        return self._level == "O2"

    @contextmanager
    def making(self) -> Iterator[None]:
        """Make new parameters in their precision, so that a large model is never there in float32 first."""
        before = paddle.get_default_dtype()
        if self.master_weights:
            paddle.set_default_dtype(DTYPES[self._precision])
        try:
            yield
        finally:
            paddle.set_default_dtype(before)

    def computing(self) -> AbstractContextManager[None]:
        """Around the forward pass."""
        if self._level is None:
            return nullcontext()
        return paddle.amp.auto_cast(level=self._level, dtype=DTYPES[self._precision])

    def scaler(self) -> paddle.amp.GradScaler | None:
        """Loss scaler: only fp16 needs one."""
        return paddle.amp.GradScaler(init_loss_scaling=2.0**15) if self._precision == "fp16" else None


def allow_tf32(spec: RunSpec) -> None:
    """Allow cuBLAS to compute float32 products in TF32, if the case says so."""
    if hasattr(core, "set_cublas_switch"):  # builds for CUDA
        core.set_cublas_switch(spec.contract.precision == "tf32")


Pairs = list[tuple[paddle.Tensor, paddle.Tensor]]


class WholeNormClip(ClipGradByGlobalNorm):
    """As torch's `clip_grad_norm_`, and it keeps the norm.

    Fleet's own clips tell nobody the norm; that of stages 2 and 3 leaves out the other tensor-parallel ranks' part.
    Parameters that fleet divides over tensor-parallel ranks count once on each, all others once in all.
    """

    EPS = 1e-6

    def __init__(self, clip_norm: float) -> None:
        super().__init__(clip_norm)
        self._everywhere: tuple[Group, ...] = ()
        self._divided: tuple[Group, ...] = ()
        self.norm: paddle.Tensor | None = None
        """Norm of the last gradient before clipping; None before the first step, and after a skipped one."""

    def sum_over(self, everywhere: Sequence[Group], divided: Sequence[Group]) -> None:
        """Groups whose ranks hold different parameters, and those that divide single parameters."""
        self._everywhere, self._divided = tuple(everywhere), tuple(divided)

    @paddle.no_grad()
    def _dygraph_clip(self, params_grads: Pairs) -> Pairs:
        present = [(parameter, grad) for parameter, grad in params_grads if grad is not None]
        # over all ranks: divided parameters first over the ranks that divide them
        divided = _squares([grad for parameter, grad in present if _is_divided(parameter)])
        whole = _squares(
            [grad for parameter, grad in present if not _is_divided(parameter) and not _everyone(parameter)]
        )
        common = _squares([grad for parameter, grad in present if _everyone(parameter)])
        for group in self._divided:
            paddle.distributed.all_reduce(divided, group=group)
        total = divided + whole
        for group in self._everywhere:
            paddle.distributed.all_reduce(total, group=group)
        self.norm = paddle.sqrt(total + common)
        factor = paddle.clip(self.clip_norm / (self.norm + self.EPS), max=1.0)
        for parameter, grad in present:
            grad.multiply_(factor.astype(grad.dtype))
            parameter._reset_grad_inplace_version(True)
        return params_grads


def _is_divided(parameter: paddle.Tensor) -> bool:
    return bool(getattr(parameter, "is_distributed", False))


def _everyone(parameter: paddle.Tensor) -> bool:
    """Check whether stage 3 has left a parameter whole on every rank."""
    return hasattr(parameter, "unslice")


def _squares(grads: list[paddle.Tensor]) -> paddle.Tensor:
    if not grads:
        return paddle.zeros([1], dtype="float32")
    return paddle.stack([_squared_l2_norm(grad.astype("float32")) for grad in grads]).sum().reshape([1])


SLICE = "slice@"
"""Prefix that stage 3 puts before the name of a parameter's slice."""


def adamw(model: nn.Layer, settings: Optimizer, clip: WholeNormClip | None, *, master: bool) -> paddle.optimizer.AdamW:
    """Paddle's AdamW. What `llmperf.decays` leaves out does not decay; `master`: float32 copies of 16-bit weights."""
    matrices = {parameter.name for name, parameter in named(model) if decays(name)}
    return paddle.optimizer.AdamW(
        learning_rate=settings.lr,
        beta1=settings.beta1,
        beta2=settings.beta2,
        epsilon=settings.eps,
        parameters=model.parameters(),
        weight_decay=settings.weight_decay,
        apply_decay_param_fun=lambda name: name.removeprefix(SLICE) in matrices,
        grad_clip=clip,
        multi_precision=master,
    )


ORDER = ["pp", "dp", "sharding", "sep", "mp"]
"""Slowest first. Fleet's default has data parallel slowest; `Layout.data_parallel_rank` follows this one."""


def join(plan: Plan) -> Any:
    """Make all groups; fleet's `HybridCommunicateGroup`."""
    if plan.layout.nodes == 1:
        choose_interface()
    if not is_initialized():
        check_port()
    fleet.init(is_collective=True, strategy=strategy(plan), log_level="WARNING")
    if plan.layout.nodes == 1:
        confine_stores()
    return fleet.get_hybrid_communicate_group()


def strategy(plan: Plan) -> Any:
    """Fleet's strategy of a plan."""
    layout, batch = plan.layout, plan.batch
    sharding = layout.sharding_degree if layout.sharding_stage else 1
    made = fleet.DistributedStrategy()
    made.hybrid_configs = {
        "dp_degree": layout.data_parallel // sharding,
        "mp_degree": layout.tensor_parallel,
        "pp_degree": layout.pipeline_parallel,
        "sharding_degree": sharding,
        "sep_degree": 1,
        "order": list(ORDER),
    }
    configurations = made.hybrid_configs
    configurations["mp_configs"].need_broadcast_data = False  # these ranks read the same tokens themselves
    configurations["sharding_configs"].split_param = bool(plan.spec.framework.get("split_param", False))
    made.pipeline_configs = {
        "accumulate_steps": batch.gradient_accumulation,
        "micro_batch_size": batch.micro_batch,
        "enable_partial_send_recv": plan.probe.offers.collective_backend != "gloo",
    }
    return made


def layers_of(groups: Any) -> Layers:
    """Plain layers, or those of the tensor-parallel group."""
    if groups is None or groups.get_model_parallel_world_size() == 1:
        return Layers()
    size, rank = groups.get_model_parallel_world_size(), groups.get_model_parallel_rank()
    return DividedLayers(size, rank, groups.get_model_parallel_group())


LEVELS = {2: "os_g", 3: "p_g_os"}


@dataclass
class Assembly:
    """Model, optimiser and what else takes part in training."""

    model: Any
    """As fleet wraps it."""
    adamw: paddle.optimizer.AdamW
    """The optimiser inside."""
    optimizer: Any
    """As fleet wraps it."""
    scaler: Any
    """Loss scaler; None without one."""
    clip: WholeNormClip | None
    """Has the gradient's norm."""
    parameters: int
    """Parameters of the whole model."""


def assemble(plan: Plan, groups: Any, mixing: Mixing) -> Assembly:
    """Everything for this rank; `groups` is None for a single process."""
    spec, settings = plan.spec, plan.spec.contract.optimizer
    layers = layers_of(groups)
    design = Design.of(spec, plan.worker.fused_ops, layers)
    with mixing.making():
        pipeline = plan.layout.pipeline_parallel > 1
        model = pipelined(design, groups.topology()) if pipeline else Decoder(design)
    fill_weights(model, spec.model, layers, spec.contract.seed)
    parameters = count_parameters(model, layers, None if groups is None else groups.get_pipe_parallel_group())
    model.train()
    clip = None if settings.clip_norm is None else WholeNormClip(settings.clip_norm)
    inner = adamw(model, settings, clip, master=mixing.master_weights)
    whole = Assembly(model, inner, inner, mixing.scaler(), clip, parameters)
    if groups is None:
        return whole
    _distribute(whole, plan, groups)
    _clip_as_one(whole, plan, groups)
    return whole


def _distribute(whole: Assembly, plan: Plan, groups: Any) -> None:
    stage = plan.layout.sharding_stage
    if stage < 2 or groups.get_sharding_parallel_world_size() == 1:
        whole.optimizer = fleet.distributed_optimizer(whole.optimizer)
        if gloo.averages_in_step() and groups.get_data_parallel_world_size() == plan.layout.world_size:
            gloo.average_in_step(whole.optimizer)
        else:
            whole.model = fleet.distributed_model(whole.model)
        whole.scaler = whole.scaler and fleet.distributed_scaler(whole.scaler)
        return
    if plan.layout.tensor_parallel > 1:
        whole.model = fleet.meta_parallel.TensorParallel(
            whole.model, groups, strategy=fleet.fleet._user_defined_strategy
        )
    replicas = groups.get_data_parallel_group()
    chosen = {
        "group": groups.get_sharding_parallel_group(),
        "dp_group": replicas if replicas.nranks > 1 else None,
        "segment_size": int(plan.spec.framework.get("segment_size", SEGMENT_SIZE)),
    }
    if gloo.active():
        whole.model, whole.optimizer = group_sharded(whole.model, whole.optimizer, LEVELS[stage], **chosen)
    else:
        whole.model, whole.optimizer, whole.scaler = sharding.group_sharded_parallel(
            whole.model, whole.optimizer, LEVELS[stage], scaler=whole.scaler, **chosen
        )


def _clip_as_one(whole: Assembly, plan: Plan, groups: Any) -> None:
    """Put our clip back in the place of fleet's, and tell it where the parts of the gradient are."""
    if whole.clip is None:
        return
    found = (
        (groups.get_sharding_parallel_group(), plan.layout.sharding_stage > 0),
        (groups.get_pipe_parallel_group(), True),
    )
    everywhere = [group for group, holds_parts in found if holds_parts and group.nranks > 1]
    tensor = groups.get_model_parallel_group()
    whole.clip.sum_over(everywhere, [tensor] if tensor.nranks > 1 else [])
    whole.adamw._grad_clip = whole.clip
