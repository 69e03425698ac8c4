"""Single operations by torch, for `llmperf peak`: matrix products, attention, copies, launches and collectives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType

import torch
import torch.distributed
from llmperf.types import Device, OperationToTime, Plan, PreparedOperation, TimedOperations
from torch.nn import functional

from llmperf_torchkit.precision import DTYPES
from llmperf_torchkit.processes import join_ranks, leave_ranks, torch_device

SAMPLED_ROWS, SAMPLED_COLUMNS = 4, 64
TOLERANCES = {"fp32": 1e-4, "tf32": 4e-3, "bf16": 2e-2, "fp16": 4e-3}
"""Largest error of an output / (its size + the size of a typical output)."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A `llmperf.types.PreparedOperation` of two functions."""

    work: Callable[[], object]
    problem: Callable[[], str | None]

    def run(self) -> None:
        """Do the work once."""
        self.work()

    def check(self) -> str | None:
        """Fault of the last output; None if it is right."""
        return self.problem()


class TorchOperations:
    """The `llmperf.types.TimedOperations` of torch."""

    def __init__(self, plan: Plan, device: Device) -> None:
        self._place = torch_device(device)
        self._ranks = plan.layout.world_size
        self._rank = 0
        conditions = {"torch": str(torch.__version__)}
        if self._place.type == "cpu":
            conditions["threads of a rank"] = str(torch.get_num_threads())
        if self._ranks > 1:
            join_ranks(plan, device.collective_backend)
            conditions["collectives"] = device.collective_backend
            self._rank = torch.distributed.get_rank()
        self.conditions: Mapping[str, str] = conditions

    def prepare(self, operation: OperationToTime) -> PreparedOperation | None:
        """The operation with random tensors; None for a dtype or a kind that torch does not have here."""
        if operation.dtype not in DTYPES:
            return None
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high" if operation.dtype == "tf32" else "highest")
        make: Callable[[OperationToTime], Prepared] | None = getattr(self, f"_{operation.kind}", None)
        return None if make is None else make(operation)

    def agree(self, figure: float) -> float:
        """The largest figure of all ranks."""
        if self._ranks == 1:
            return figure
        shared = torch.tensor([figure], device=self._place)
        torch.distributed.all_reduce(shared, torch.distributed.ReduceOp.MAX)
        return float(shared.item())

    def _random(self, operation: OperationToTime, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self._place, dtype=DTYPES[operation.dtype])

    def _matmul(self, operation: OperationToTime) -> Prepared:
        batch, rows, columns, inner = operation.shape
        left = self._random(operation, batch, rows, inner)
        right = self._random(operation, batch, columns, inner).transpose(1, 2)  # as a linear layer has its weight
        if batch == 1:
            left, right = left[0], right[0]
        out = left.new_full((*left.shape[:-1], columns), math.nan)  # what is not written is noticed

        def check() -> str | None:
            some_rows = torch.randint(rows, (SAMPLED_ROWS,), device=self._place)
            some_columns = torch.randint(columns, (SAMPLED_COLUMNS,), device=self._place)
            reference = left[..., some_rows, :].double().cpu() @ right[..., some_columns].double().cpu()
            found = out[..., some_rows, :][..., some_columns]
            return _difference("product", found, reference, math.sqrt(inner), operation.dtype)

        return Prepared(lambda: torch.matmul(left, right, out=out), check)

    def _attention(self, operation: OperationToTime) -> Prepared:
        batch, heads, tokens, size = operation.shape
        query, key, value = (self._random(operation, batch, heads, tokens, size).requires_grad_() for _ in range(3))
        gradient = self._random(operation, batch, heads, tokens, size)
        outputs: list[torch.Tensor] = []

        def run() -> None:
            out = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            outputs[:] = [out.detach(), *torch.autograd.grad(out, (query, key, value), gradient)]

        def check() -> str | None:
            row = int(torch.randint(tokens, ()))
            keys, values = (of[0, 0, : row + 1].detach().double().cpu() for of in (key, value))
            weights = torch.softmax(keys @ query[0, 0, row].detach().double().cpu() / math.sqrt(size), dim=0)
            problem = _difference("attention", outputs[0][0, 0, row], weights @ values, 1.0, operation.dtype)
            found, expected = outputs[3][0, 0].double().sum(0), gradient[0, 0].double().sum(0).cpu()
            gradients = _difference("gradient of values", found, expected, math.sqrt(tokens), operation.dtype)
            return problem or gradients

        return Prepared(run, check)

    def _copy(self, operation: OperationToTime) -> Prepared:
        source = self._random(operation, operation.shape[0] // 4)
        target = torch.zeros_like(source)
        return Prepared(
            lambda: target.copy_(source),
            lambda: None if torch.equal(target, source) else "the copy differs from its source",
        )

    def _read(self, operation: OperationToTime) -> Prepared:
        source = torch.ones(operation.shape[0] // 4, device=self._place)
        sums: list[torch.Tensor] = []

        def run() -> None:
            sums[:] = [source.sum()]

        def check() -> str | None:
            found, expected = float(sums[0]), float(source.numel())
            close = math.isclose(found, expected, rel_tol=1e-3)
            return None if close else f"sum of the numbers read: expected {expected:g}, found {found:g}"

        return Prepared(run, check)

    def _launch(self, operation: OperationToTime) -> Prepared:
        count = torch.zeros(1, device=self._place)
        runs = 0

        def run() -> None:
            nonlocal runs
            runs += 1
            for _ in range(operation.shape[0]):
                count.add_(1)

        def check() -> str | None:
            expected, found = runs * operation.shape[0], float(count.item())
            return None if found == expected else f"kernels that ran: expected {expected}, found {found:g}"

        return Prepared(run, check)

    def _all_reduce(self, operation: OperationToTime) -> Prepared:
        data = torch.zeros(operation.shape[0] // 4, device=self._place)

        def check() -> str | None:
            pattern = torch.arange(data.numel(), device=self._place).remainder_(97).float()
            data.copy_(pattern + self._rank)
            torch.distributed.all_reduce(data)
            expected = pattern * self._ranks + self._ranks * (self._ranks - 1) / 2
            return None if torch.equal(data, expected) else "the sum of an all-reduce is wrong"

        return Prepared(lambda: torch.distributed.all_reduce(data), check)

    def _all_gather(self, operation: OperationToTime) -> Prepared:
        whole = torch.zeros(operation.shape[0] // 4, device=self._place)
        part = torch.full((whole.numel() // self._ranks,), float(self._rank), device=self._place)

        def check() -> str | None:
            expected = torch.arange(self._ranks, device=self._place).repeat_interleave(part.numel()).float()
            return None if torch.equal(whole, expected) else "the result of an all-gather is wrong"

        return Prepared(lambda: torch.distributed.all_gather_into_tensor(whole, part), check)

    def __enter__(self) -> TimedOperations:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:  # a failing rank must not wait for the others
            leave_ranks()


def _difference(what: str, found: torch.Tensor, reference: torch.Tensor, typical_size: float, dtype: str) -> str | None:
    """A line if an output differs from its reference by more than its dtype explains."""
    error = (found.double().cpu() - reference).abs() / (reference.abs() + typical_size)
    largest = float(error.max())
    if largest <= TOLERANCES[dtype]:
        return None
    return f"{what} in {dtype}: expected an error of at most {TOLERANCES[dtype]:g}, found {largest:.3g}"
