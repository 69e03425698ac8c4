"""CPU time of the controller for each logged step, handed over as in a run, by logger of `llmperf run --log`.

./dev python benchmarks/log_cost.py
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import llmperf_schemas
from llmperf.files.json_files import convert
from llmperf.plugins.loading import plugins_for
from llmperf.running.observers import opened_logs
from llmperf.types import Plan, Result, StepProgress

PART = 100


def cpu_seconds() -> float:
    """CPU seconds of this process and of its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    steps = parser.parse_args().steps
    plan = convert(llmperf_schemas.example("plan"), Plan, "plan")
    result = convert(llmperf_schemas.example("result"), Result, "result")
    made = [
        StepProgress(step=step, measured=True, loss=1 / step, step_seconds=0.01, tokens_per_second_per_device=1e4)
        for step in range(1, steps + 1)
    ]
    plugins = plugins_for()
    print(f"{'logger':12} {'open, s':>8} {'CPU, us/step':>13} {'wall, us/step':>14}")
    for name in ("openmetrics", "tensorboard", "mlflow", "wandb"):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            ((_, observer),) = opened_logs(plugins, [f"{name}={folder}/{name}"])
            opened = time.perf_counter() - begin
            observer.started(plan, Path(folder))
            begin, cpu = time.perf_counter(), cpu_seconds()
            for first in range(0, steps, PART):
                observer.steps(made[first : first + PART])
            wall, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
            observer.ended(result, Path(folder))
        print(f"{name:12} {opened:8.2f} {1e6 * cpu / steps:13.0f} {1e6 * wall / steps:14.0f}")


if __name__ == "__main__":
    main()
