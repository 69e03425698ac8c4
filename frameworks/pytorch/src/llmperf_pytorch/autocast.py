"""Effect of torch's autocast on an operation: the dtype it computes in, and how to switch it off."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch


def compute_dtype(states: torch.Tensor) -> torch.dtype:
    """Dtype of the output of matrix products of hidden states, which under autocast is not their own."""
    kind = states.device.type
    return torch.get_autocast_dtype(kind) if _enabled(kind) else states.dtype


def without_autocast(states: torch.Tensor) -> AbstractContextManager[object]:
    """Operations in the dtypes of their inputs."""
    kind = states.device.type
    return torch.autocast(kind, enabled=False) if _enabled(kind) else nullcontext()


def _enabled(kind: str) -> bool:
    possible = torch.amp.is_autocast_available(kind)  # the meta device, for one, knows nothing of it
    return possible and torch.is_autocast_enabled(kind)
