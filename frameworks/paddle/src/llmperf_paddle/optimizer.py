"""AdamW with clipping by the norm of the whole gradient, over all ranks that hold parts of it."""

from __future__ import annotations

from collections.abc import Sequence

import paddle
from llmperf import decays
from llmperf.types import Optimizer
from paddle import nn
from paddle.distributed.collective import Group
from paddle.nn import ClipGradByGlobalNorm
from paddle.nn.clip import _squared_l2_norm

from llmperf_paddle.weights import named

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
