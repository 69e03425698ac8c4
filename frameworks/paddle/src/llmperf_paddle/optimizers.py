"""AdamW as the case has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paddle
from llmperf import is_norm

from llmperf_paddle.weights import named

if TYPE_CHECKING:
    from llmperf.types import Optimizer
    from paddle import nn

    from llmperf_paddle.clipping import WholeNormClip

SLICE = "slice@"
"""What stage 3 puts before the name of a parameter's slice."""


def adamw(model: nn.Layer, settings: Optimizer, clip: WholeNormClip | None, *, master: bool) -> paddle.optimizer.AdamW:
    """Paddle's AdamW. Matrices decay, norm weights do not; `master`: float32 copies of 16-bit weights."""
    matrices = {parameter.name for name, parameter in named(model) if not is_norm(name)}
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
