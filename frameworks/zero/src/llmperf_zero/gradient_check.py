"""DeepSpeed's check of the gradient norm, which waits for the device in every step."""

from __future__ import annotations

from deepspeed.runtime.zero import stage3, stage_1_and_2

NAME = "is_invalid_grad_norm"
_CHECKS = {module: getattr(module, NAME) for module in (stage_1_and_2, stage3) if hasattr(module, NAME)}
"""As DeepSpeed has it, where this version of DeepSpeed has it at all."""


def check_gradients(precision: str) -> None:
    """Have ZeRO 1, 2 and 3 look at the gradient norm only in fp16, where the loss scale depends on it.

    Elsewhere DeepSpeed would leave out the update of a step whose gradients are not finite, and say nothing. Without
    the check that update makes the next loss NaN, which ends the run.
    """
    for module, check in _CHECKS.items():
        setattr(module, NAME, check if precision == "fp16" else _valid)


def _valid(norm: object) -> bool:
    """No norm is invalid: nothing is read from the device."""
    return False
