"""Ranks without llmperf's worker: the other side of a comparison gets the same processes and the same variables."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llmperf.files.json_files import load, save
from llmperf.launching.agent import rank_environment
from llmperf.launching.run_here import free_port
from llmperf.measuring.loop import MeasuredLoop
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Planned, Selection
from llmperf.plugins.loading import load_for
from llmperf.runfolder.reader import Recorder
from llmperf.running.measure import startable
from llmperf.types import Device, Plan, Trainer

HERE = Path(__file__).parent


def planned(case: str, framework: str | None, settings: Sequence[str]) -> Planned:
    """A draft that can run here."""
    sketch = plan_run(Selection(case, framework=framework, settings=tuple(settings)))
    return ready(startable(sketch))


def run_ranks(script: str, plan: Plan, folder: Path, *words: str) -> list[dict[str, Any]]:
    """Start `benchmarks/<script>` once a rank, with the plan's variables; the JSON each prints last, in rank order."""
    (folder / "files").mkdir(parents=True, exist_ok=True)
    save(folder / "plan.json", plan)
    for name, text in plan.worker.files.items():
        (folder / "files" / name).write_text(text)
    port = free_port()
    processes = [
        subprocess.Popen(
            [sys.executable, str(HERE / script), str(folder), *words],
            env={**os.environ, **rank_environment(folder, plan, 0, rank, "127.0.0.1", port)},
            stdout=subprocess.PIPE,
            stderr=(folder / f"rank-{rank}.err").open("w"),
            text=True,
        )
        for rank in range(plan.layout.world_size)
    ]
    outputs = [process.communicate()[0] for process in processes]
    for rank, process in enumerate(processes):
        if process.returncode:
            sys.exit(f"rank {rank} of {script} failed:\n{(folder / f'rank-{rank}.err').read_text()[-2000:]}")
    return [json.loads(output.strip().splitlines()[-1]) for output in outputs]


@contextmanager
def own_rank(folder: Path) -> Iterator[tuple[Plan, Trainer, Device, MeasuredLoop]]:
    """In a rank: the plan of the folder, the trainer that its framework builds, its device and llmperf's loop."""
    plan, rank = load(folder / "plan.json", Plan), int(os.environ["RANK"])
    plugins = load_for(plan.vendor, plan.spec.tuning.framework)
    with (
        Recorder(folder / f"rank-{rank}.jsonl", folder / f"reserve-{rank}") as recorder,
        plugins.ask("llmperf_setup_device", plan=plan, local_rank=int(os.environ["LOCAL_RANK"])) as device,
        plugins.ask("llmperf_build_trainer", plan=plan, device=device) as trainer,
    ):
        yield plan, trainer, device, MeasuredLoop(trainer, device, recorder, rank)


def tokens_per_second_per_device(plan: Plan, seconds: float) -> float:
    """The core's own arithmetic: tokens of the measured steps / wall time of the slowest rank / ranks."""
    steps = plan.spec.contract.steps - plan.spec.contract.warmup_steps
    return steps * plan.batch.tokens_per_step / seconds / plan.layout.world_size


def report(name: str, ratios: Sequence[float], wanted: str) -> None:
    """Print the pairs and their median."""
    low, _, high = statistics.quantiles(ratios, n=4)
    middle = statistics.median(ratios)
    print(
        f"{name}: median ratio {middle:.4f} of {len(ratios)} pairs, quartiles {low:.4f} to {high:.4f}; wanted {wanted}"
    )
