"""The ranks' part of `llmperf peak`: each times operations, sized by a model and by its device, with all others."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from llmperf.accounting import attention_shapes, shared_width
from llmperf.errors import PluginError
from llmperf.types import Model, OperationToTime, RankAtTask, TimedOperations
from llmperf.types.rank_tasks import TimedKind
from llmperf.types.units import Count, NonNegative

SQUARES = (1024, 2048, 4096, 8192, 16384)
TOKENS = (4096, 2048, 1024, 512, 256, 128)
"""Rows of the matrix products and tokens of a sequence in attention that a device computes quickly enough."""
LARGEST_COPY_BYTES, SMALLEST_COPY_BYTES = 2**30, 2**26
COPIED_SHARE = 32
"""A copy takes at most this part of the memory of a rank."""
MESSAGE_BYTES = tuple(2**power for power in range(10, 29, 3))
"""Of collectives: 1 KiB to 256 MiB."""
KERNELS = 100
"""Launched in one run."""
BACKWARD = 2.5
"""FLOPs of the backward pass of fused attention / those of its forward pass: five matrix products after two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakTask:
    """Task of the ranks of `llmperf peak`."""

    model: Model
    """Model whose matrix products are timed."""
    dtypes: tuple[str, ...]
    """Precisions of products."""
    rank_memory_bytes: Count
    """Memory that one rank may use."""
    seconds: NonNegative
    """Time for the repeats of one operation."""


def square(dtype: str, size: int) -> OperationToTime:
    """The product of two square matrices."""
    return OperationToTime(kind="matmul", dtype=dtype, shape=(1, size, size, size))


def model_products(model: Model, dtype: str, tokens: int) -> list[OperationToTime]:
    """The products of a model's linear layers and of their weight gradients, each shape once."""
    hidden, mixture = model.hidden_size, model.mixture
    layers = [(outputs, inputs) for inputs, outputs in attention_shapes(model).values()]
    inners = [model.intermediate_size] if model.dense_layers else []
    if mixture is not None:
        inners += [mixture.expert_width, *filter(None, [shared_width(model)])]
    layers += [shape for inner in inners for shape in ((inner, hidden), (hidden, inner))]
    layers.append((model.vocab_size, hidden))
    shapes = [(1, tokens, outputs, inputs) for outputs, inputs in layers]
    shapes += [(1, outputs, inputs, tokens) for outputs, inputs in layers]
    return [OperationToTime(kind="matmul", dtype=dtype, shape=shape) for shape in dict.fromkeys(shapes)]


def attention(model: Model, dtype: str, tokens: int) -> OperationToTime:
    """Causal attention of one sequence, with as many key and value heads as query heads."""
    heads = model.attention_heads
    return OperationToTime(kind="attention", dtype=dtype, shape=(1, heads, tokens, model.query_width))


def moved(kind: TimedKind, size: int) -> OperationToTime:
    """A copy, a reading or a collective of so many bytes, or so many launches."""
    return OperationToTime(kind=kind, dtype="fp32", shape=(size,))


def flops(operation: OperationToTime) -> float:
    """FLOPs of a matrix product, or of causal attention without the masked half; 0 for others."""
    if operation.kind == "matmul":
        batch, rows, columns, inner = operation.shape
        return 2.0 * batch * rows * columns * inner
    if operation.kind == "attention":
        batch, heads, tokens, head_size = operation.shape
        return (1 + BACKWARD) * 2 * 2 * batch * heads * tokens * tokens * head_size / 2
    return 0.0


HOOK = "llmperf_timed_operations"
FEWEST_RUNS, MOST_RUNS = 5, 200
FEWEST_LONG_RUNS, LONG_SECONDS = 3, 0.4
"""Repeats of an operation that takes longer than that."""
LONGEST_SQUARE_SECONDS = 1.0
LONGEST_PRODUCT_SECONDS = 0.2
"""Of one product of a model, or of its attention: fewer tokens where it would take longer."""
LONGEST_MESSAGE_SECONDS = 0.5
ATTENTION_SHARE = 0.5
"""Rate of attention to expect, of that of matrix products."""
MAX_PROBLEM = 200
"""Characters of what is wrong with an output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOperation:
    """An operation as it was timed on one rank, all ranks at the same time."""

    operation: OperationToTime
    ranks: Count
    """That took part in a collective, or computed at the same time."""
    runs: Count
    """Timed repeats, after one that does not count."""
    median_seconds: NonNegative
    """Median time of one run."""
    low_seconds: NonNegative
    """First quartile."""
    high_seconds: NonNegative
    """Third quartile."""
    problem: str | None = None
    """Problem of its output; such figures are not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakRecord:
    """Record of a rank: an operation that it has timed, or the conditions under which it does."""

    kind: Literal["peak"] = "peak"
    rank: Count
    timed: tuple[TimedOperation, ...] = ()
    """The operation, if it is one."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Conditions of the rank, by name."""


def time_operations(rank: RankAtTask) -> None:
    """The `RankTask` of `llmperf peak`."""
    operations = rank.ask(HOOK, plan=rank.plan, device=rank.device)
    if not callable(getattr(operations, "prepare", None)):
        raise PluginError(f"{HOOK}: expected TimedOperations, found {type(operations).__name__}")
    with operations:
        rank.enter("measuring")
        PeakRank(rank, operations).run()
        rank.enter("evaluating")


class PeakRank:
    """Times everything on one rank; all ranks do the same at the same time, so sizes depend on agreed times."""

    def __init__(self, rank: RankAtTask, operations: TimedOperations) -> None:
        self._rank = rank
        self._task = rank.task(PeakTask)
        self._operations = operations
        self._ranks = rank.plan.layout.world_size

    def run(self) -> None:
        """All operations, each recorded as soon as it is timed."""
        self._rank.record(PeakRecord(rank=self._rank.rank, conditions=dict(self._operations.conditions)))
        self._time(moved("launch", KERNELS))
        size = LARGEST_COPY_BYTES  # larger than caches, and nearly all memory stays free
        while size > SMALLEST_COPY_BYTES and size > self._task.rank_memory_bytes // COPIED_SHARE:
            size //= 2
        for kind in ("copy", "read"):
            self._time(moved(kind, size))
        for dtype in self._task.dtypes:
            if rate := self._squares(dtype):
                self._compute(dtype, rate)
        if self._ranks > 1:
            self._communicate()

    def _squares(self, dtype: str) -> float:
        """FLOP/s of the fastest square product, on the slowest rank; 0 if the device has no products of this dtype."""
        rate = 0.0
        for size in SQUARES:
            if rate and flops(square(dtype, size)) > LONGEST_SQUARE_SECONDS * rate:
                break
            if 3 * 4 * size**2 > self._task.rank_memory_bytes // 8:
                break
            done = self._time(square(dtype, size))
            if done is None:
                break
            seconds = self._operations.agree(done.median_seconds)
            rate = max(rate, flops(done.operation) / max(seconds, 1e-12))
        return rate

    def _compute(self, dtype: str, rate: float) -> None:
        """Products and attention of the model, of as many tokens as are quick enough at this rate."""
        most, model = LONGEST_PRODUCT_SECONDS * rate, self._task.model
        products = [model_products(model, dtype, tokens) for tokens in TOKENS]
        attentions = [[attention(model, dtype, tokens)] for tokens in TOKENS]
        for choices, allowed in ((products, most), (attentions, most * ATTENTION_SHARE)):
            quick = (each for each in choices if all(flops(operation) <= allowed for operation in each))
            for operation in next(quick, choices[-1]):
                self._time(operation)

    def _communicate(self) -> None:
        for kind in ("all_reduce", "all_gather"):
            for size in MESSAGE_BYTES:
                done = self._time(moved(kind, max(size // (4 * self._ranks), 1) * 4 * self._ranks))
                if done is None or self._operations.agree(done.median_seconds) > LONGEST_MESSAGE_SECONDS / 8:
                    break

    def _time(self, operation: OperationToTime) -> TimedOperation | None:
        """Repeat an operation for the task's seconds on all ranks, check it, and record both; None if unavailable."""
        prepared, device, agree = self._operations.prepare(operation), self._rank.device, self._operations.agree
        if prepared is None:
            return None
        prepared.run()
        device.synchronize()
        agree(0.0)
        start = time.perf_counter()
        prepared.run()
        device.synchronize()
        expected = agree(time.perf_counter() - start)
        fewest = FEWEST_RUNS if expected < LONG_SECONDS else FEWEST_LONG_RUNS
        runs = min(max(fewest, round(self._task.seconds / max(expected, 1e-9))), MOST_RUNS)
        marks = [device.event()]
        for _ in range(runs):
            prepared.run()
            marks.append(device.event())
        device.synchronize()
        durations = [max(0.0, end.seconds_since(begin)) for begin, end in pairwise(marks)]
        low, median, high = statistics.quantiles(durations, n=4)
        problem: object = prepared.check()
        if problem is not None and not (isinstance(problem, str) and problem.strip()):
            raise PluginError(f"check() of a timed operation: expected a text or None, found {problem!r:.80}")
        timed = TimedOperation(
            operation=operation,
            ranks=self._ranks,
            runs=runs,
            median_seconds=median,
            low_seconds=low,
            high_seconds=high,
            problem=None if problem is None else problem.splitlines()[0][:MAX_PROBLEM],
        )
        self._rank.record(PeakRecord(rank=self._rank.rank, timed=(timed,)))
        return timed
