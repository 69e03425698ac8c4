"""Matrix products of experts: rows in the order of their experts, each expert with a matrix of its own."""

from __future__ import annotations

import torch
from torch.nn import functional

from llmperf_pytorch.autocast import compute_dtype, without_autocast

GROUPED = getattr(functional, "grouped_mm", getattr(torch, "_grouped_mm", None))
"""torch's product of groups, from torch 2.8 on; None in versions without it."""


def grouped_product(rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Rows [rows, in] times the transposed matrices [experts, out, in] of their experts: [rows, out].

    `ends` [experts] are the places after the last row of each expert. One kernel on accelerators; on a CPU, and in
    versions of torch without it, one product for each expert, for which the host reads `ends`.
    """
    dtype = compute_dtype(rows)
    rows, matrices = rows.to(dtype), matrices.to(dtype)
    with without_autocast(rows):
        if GROUPED is not None and rows.device.type != "cpu":
            product: torch.Tensor = GROUPED(rows, matrices.transpose(-2, -1), offs=ends.to(torch.int32))
            return product
        parts = rows.tensor_split(ends[:-1].cpu())
        return torch.cat([part @ matrix.t() for part, matrix in zip(parts, matrices.unbind(), strict=True)])


def grouped_kernel(device_type: str) -> str:
    """By what grouped products are computed, for the result."""
    if GROUPED is not None and device_type != "cpu":
        return "torch.nn.functional.grouped_mm"
    return "one product for each expert"
