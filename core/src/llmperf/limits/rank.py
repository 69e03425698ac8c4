"""The rank process of `llmperf peak`: `python -m llmperf.limits.rank --run-dir DIR` times operations on its device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmperf.errors import PluginError
from llmperf.limits.task import (
    KERNELS,
    MESSAGE_BYTES,
    SQUARES,
    TASK,
    TOKENS,
    LimitsTask,
    attention,
    copied_bytes,
    flops,
    model_products,
    moved,
    square,
)
from llmperf.limits.timing import timed
from llmperf.measuring.rank_process import begin, fail, leave, task_of
from llmperf.measuring.worker import bound_device, plugins_of
from llmperf.runfolder import filenames
from llmperf.runfolder.create import load_plan
from llmperf.runfolder.recorder import Moment, Recorder
from llmperf.types.devices import Device
from llmperf.types.limits import OperationToTime, TimedOperation, TimedOperations
from llmperf.types.plan import Plan
from llmperf.types.records import LimitsRecord, Phase, PhaseRecord

HOOK = "llmperf_timed_operations"
LONGEST_SQUARE_SECONDS = 1.0
LONGEST_PRODUCT_SECONDS = 0.2
"""Of one product of a model, or of its attention: fewer tokens where it would take longer."""
LONGEST_MESSAGE_SECONDS = 0.5
ATTENTION_SHARE = 0.5
"""Rate of attention to expect, of that of matrix products."""


class LimitsRank:
    """Times everything on one rank; all ranks do the same at the same time, so sizes depend on agreed times."""

    def __init__(
        self, plan: Plan, task: LimitsTask, device: Device, operations: TimedOperations, recorder: Recorder, rank: int
    ) -> None:
        self._task = task
        self._device = device
        self._operations = operations
        self._recorder = recorder
        self._rank = rank
        self._ranks = plan.layout.world_size

    def run(self) -> None:
        """All operations, each recorded as soon as it is timed."""
        self._recorder.write(LimitsRecord(rank=self._rank, conditions=dict(self._operations.conditions)))
        self._time(moved("launch", KERNELS))
        size = copied_bytes(self._task.rank_memory_bytes)
        for kind in ("copy", "read"):
            self._time(moved(kind, size))
        for dtype in self._task.dtypes:
            self._compute(dtype)
        if self._ranks > 1:
            self._communicate()

    def _compute(self, dtype: str) -> None:
        rate = self._squares(dtype)
        if not rate:
            return
        for product in _affordable(
            [model_products(self._task.model, dtype, tokens) for tokens in TOKENS], LONGEST_PRODUCT_SECONDS * rate
        ):
            self._time(product)
        flops_allowed = LONGEST_PRODUCT_SECONDS * rate * ATTENTION_SHARE
        for single in _affordable([[attention(self._task.model, dtype, tokens)] for tokens in TOKENS], flops_allowed):
            self._time(single)

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

    def _communicate(self) -> None:
        for kind in ("all_reduce", "all_gather"):
            for size in MESSAGE_BYTES:
                done = self._time(moved(kind, max(size // (4 * self._ranks), 1) * 4 * self._ranks))
                if done is None or self._operations.agree(done.median_seconds) > LONGEST_MESSAGE_SECONDS / 8:
                    break

    def _time(self, operation: OperationToTime) -> TimedOperation | None:
        prepared = self._operations.prepare(operation)
        if prepared is None:
            return None
        done = timed(operation, prepared, self._operations, self._device, self._task.seconds, self._ranks)
        self._recorder.write(LimitsRecord(rank=self._rank, timed=done))
        return done


def _affordable(choices: list[list[OperationToTime]], most_flops: float) -> list[OperationToTime]:
    """The first choice of which no operation has more FLOPs; otherwise the last one."""
    for operations in choices:
        if all(flops(operation) <= most_flops for operation in operations):
            return operations
    return choices[-1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one rank; 0 when it finished. A failure is recorded and ends the process at once with status 1."""
    run, rank = begin("llmperf.limits.rank", arguments)
    with Recorder(filenames.records_path(run, rank), run / filenames.RANK_RESERVE) as recorder:
        try:
            _run(run, rank, recorder)
        except BaseException as error:
            fail(recorder, rank, error, "while operations were timed")
    return 0


def _run(run: Path, rank: int, recorder: Recorder) -> None:
    def enter(phase: Phase) -> None:
        at, monotonic = Moment.now()
        recorder.write(PhaseRecord(rank=rank, phase=phase, at=at, monotonic=monotonic))

    enter("loading")
    plan, task = load_plan(run), task_of(run, TASK, LimitsTask)
    plugins = plugins_of(plan)
    with bound_device(plugins, plan) as device:
        enter("building")
        operations = plugins.ask(HOOK, plan=plan, device=device)
        if not callable(getattr(operations, "prepare", None)):
            raise PluginError(f"{HOOK}: expected TimedOperations, found {type(operations).__name__}")
        with operations:
            enter("measuring")
            LimitsRank(plan, task, device, operations, recorder, rank).run()
            enter("evaluating")
    enter("done")


if __name__ == "__main__":
    leave(main())
