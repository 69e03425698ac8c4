"""A rank that builds a trainer from `plan.json`, takes some steps and leaves with an error, each in its turn."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from llmperf.files import json_files
from llmperf.measuring.rank_process import leave
from llmperf.measuring.worker import plugins_of
from llmperf.runfolder import filenames
from llmperf.types import Device, Plan, Trainer

from llmperf_testing.observations import RankEnd
from llmperf_testing.programs.fresh import error_line

STEPS = 5
PATIENCE_SECONDS = 60.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Write what was seen to `--out`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    rank = int(os.environ["RANK"])
    plan = json_files.load(given.run_dir / filenames.PLAN, Plan)
    try:
        end = lived(plan, rank, given.out.parent)
    except Exception as error:
        end = RankEnd(rank=rank, error=error_line(error))
    json_files.save(given.out, end)
    leave(0)


def lived(plan: Plan, rank: int, folder: Path) -> RankEnd:
    """Some steps, an evaluation, an error, the end."""
    plugins = plugins_of(plan)
    device: Device = plugins.ask("llmperf_setup_device", plan=plan, local_rank=int(os.environ["LOCAL_RANK"]))
    trainer: Trainer = plugins.ask("llmperf_build_trainer", plan=plan, device=device)
    trainer.__enter__()
    outputs = [trainer.train_step() for _ in range(STEPS)]
    losses = tuple(None if one.loss is None else float(one.loss) for one in outputs)
    device.synchronize()
    known = evaluated(RankEnd(rank=rank, losses=losses), trainer)
    for other in range(rank):
        wait_for(folder / f"left-{other}")
    known = left(known, trainer)
    (folder / f"left-{rank}").touch()
    for other in range(plan.layout.world_size):  # the store of rank 0 stays until all have left
        wait_for(folder / f"left-{other}")
    return closed(known, trainer)


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
