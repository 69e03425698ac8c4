"""Matrix products of experts: rows in the order of their experts, each expert with a matrix of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._guards import detect_fake_mode
from torch.nn import functional

from llmperf_pytorch.precision import compute_dtype, without_autocast

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUPED = getattr(functional, "grouped_mm", getattr(torch, "_grouped_mm", None))
"""torch's product of groups, from torch 2.8 on; None in versions without it."""


def grouped_product(
    rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor, *, one_kernel: bool = True
) -> torch.Tensor:
    """Rows [rows, in] times the transposed matrices [experts, out, in] of their experts: [rows, out].

    `ends` [experts] are the places after the last row of each expert. One kernel on accelerators that have it. Without
    it, as in old versions of torch, one product for each expert, for which the host reads `ends`.
    """
    dtype = compute_dtype(rows)
    rows, matrices = rows.to(dtype), matrices.to(dtype)
    with without_autocast(rows):
        if one_kernel and GROUPED is not None and rows.device.type != "cpu":
            product: torch.Tensor = GROUPED(rows, matrices.transpose(-2, -1), offs=ends.to(torch.int32))
            return product
        parts = rows.tensor_split(_read_places(ends, rows))
        return torch.cat([part @ matrix.t() for part, matrix in zip(parts, matrices.unbind(), strict=True)])


def _read_places(ends: torch.Tensor, rows: torch.Tensor) -> torch.Tensor | Sequence[int]:
    """The places between experts, for which the host waits; equal parts if the rows have no data, in a trace."""
    places = ends[:-1].cpu()
    if detect_fake_mode(rows) is None:
        return places
    return [rows.shape[0] * (place + 1) // len(ends) for place in range(len(places))]


def grouped_kernel(device_type: str, *, one_kernel: bool) -> str:
    """By what grouped products are computed, for the result."""
    if one_kernel and GROUPED is not None and device_type != "cpu":
        return "torch.nn.functional.grouped_mm"
    return "one product for each expert"
