"""A rank that builds a trainer from `plan.json`, takes the plan's steps and leaves with an error, each in its turn."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from llmperf.files import json_files
from llmperf.measuring.rank_process import leave
from llmperf.measuring.worker import plugins_of
from llmperf.runfolder import filenames
from llmperf.types import Device, Plan, Trainer

from llmperf_testing.late_tokens import LateTokens
from llmperf_testing.observations import RankEnd
from llmperf_testing.programs.fresh import error_line
from llmperf_testing.programs.watched import Stopwatch, WatchedData, functions, replaced_since

PATIENCE_SECONDS = 60.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Write what was seen to `--out`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--late-tokens", type=int, nargs=2, metavar=("SEED", "STEP"))
    given = parser.parse_args(arguments)
    rank = int(os.environ["RANK"])
    plan = json_files.load(given.run_dir / filenames.PLAN, Plan)
    late = LateTokens(seed=given.late_tokens[0], first_step=given.late_tokens[1]) if given.late_tokens else None
    try:
        end = lived(plan, rank, given.out.parent, late)
    except Exception as error:
        end = RankEnd(rank=rank, error=error_line(error))
    json_files.save(given.out, end)
    leave(0)


def lived(plan: Plan, rank: int, folder: Path, late: LateTokens | None = None) -> RankEnd:
    """All steps, an evaluation, an error, the end."""
    data = WatchedData(plan, plan.layout.data_parallel_rank(rank), late)
    data.watch()
    before = functions()
    plugins = plugins_of(plan)
    device: Device = plugins.ask("llmperf_setup_device", plan=plan, local_rank=int(os.environ["LOCAL_RANK"]))
    trainer: Trainer = plugins.ask("llmperf_build_trainer", plan=plan, device=device)
    trainer.__enter__()
    stopwatch = Stopwatch.begin(device, folder / f"clock-{rank}")
    outputs, steps = [], plan.spec.contract.steps
    for data.step in range(1, steps + 1):
        with operations_of(last=data.step == steps) as operations:
            outputs.append(trainer.train_step())
        if data.step == 1:
            sequences = first_losses(trainer)
    clocks, draws = stopwatch.end(), tuple(data.draws)
    known = RankEnd(
        rank=rank,
        losses=tuple(None if one.loss is None else float(one.loss) for one in outputs),
        grad_norms=tuple(None if one.grad_norm is None else float(one.grad_norm) for one in outputs),
        sequences=sequences,
        draws=draws,
        clocks=clocks,
        replaced=replaced_since(before),
        kernels={str(name): str(kernel) for name, kernel in getattr(trainer, "kernels", {}).items()},
        operations=tuple(sorted(operations)),
    )
    known = evaluated(known, trainer)
    for other in range(rank):
        wait_for(folder / f"left-{other}")
    known = left(known, trainer)
    (folder / f"left-{rank}").touch()
    for other in range(plan.layout.world_size):  # the store of rank 0 stays until all have left
        wait_for(folder / f"left-{other}")
    return closed(known, trainer)


@contextmanager
def operations_of(*, last: bool) -> Iterator[set[str]]:
    """The names of what a step calls, filled in after it if it is the last and torch is loaded."""
    names: set[str] = set()
    if not last or "torch" not in sys.modules:
        yield names
        return
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        yield names
    names.update(str(event.name) for event in profiler.events() or ())


def first_losses(trainer: Trainer) -> tuple[float, ...] | None:
    """The losses of the sequences of step 1, where the trainer offers them."""
    query = getattr(trainer, "first_losses", None)
    losses = query() if callable(query) else None
    return None if losses is None else tuple(float(loss) for loss in losses)


def evaluated(known: RankEnd, trainer: Trainer) -> RankEnd:
    """The same with what `evaluate()` gives: figures by name, or an iterator of such."""
    figures: dict[str, float] = {}
    try:
        given = trainer.evaluate()
        for part in [given] if isinstance(given, Mapping) else given:
            for name, value in dict(part).items():
                if not isinstance(name, str) or not math.isfinite(float(value)):
                    return replace(known, evaluation_error=f"{name!r}: {value!r}; expected names and finite numbers")
                figures[name] = float(value)
    except Exception as error:
        return replace(known, evaluation_error=error_line(error))
    return replace(known, evaluation=figures)


def left(known: RankEnd, trainer: Trainer) -> RankEnd:
    """The same with how the trainer is left with an error while the other ranks do nothing."""
    error = RuntimeError("an error of the kit's own")
    began = time.monotonic()
    try:
        hides = bool(trainer.__exit__(RuntimeError, error, None))  # type: ignore[func-returns-value]
    except Exception as raised:
        return replace(known, leaving_error=error_line(raised), leaving_seconds=time.monotonic() - began)
    return replace(known, hides_errors=hides, leaving_seconds=time.monotonic() - began)


def closed(known: RankEnd, trainer: Trainer) -> RankEnd:
    """The same with closing it, twice."""
    try:
        trainer.close()
        trainer.close()
    except Exception as raised:
        return replace(known, close_error=error_line(raised))
    return known


def wait_for(path: Path) -> None:
    """Wait until another rank has created a file, or for PATIENCE_SECONDS."""
    limit = time.monotonic() + PATIENCE_SECONDS
    while not path.exists() and time.monotonic() < limit:
        time.sleep(0.02)


if __name__ == "__main__":
    main()
