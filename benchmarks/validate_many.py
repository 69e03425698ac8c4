"""Time and peak memory of `llmperf validate` and `report` on 1,000 and on 10,000 valid results, on one core.

./dev python benchmarks/validate_many.py
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import llmperf_schemas

COMMANDS = ("validate", "terminal", "markdown", "csv", "json", "html")
"""`validate`, and formats of `report`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", type=int, nargs="+", default=[1000, 10_000], help="How many results each time.")
    parser.add_argument("--commands", nargs="+", default=COMMANDS, choices=COMMANDS, help="What to measure.")
    numbers, commands = (arguments := parser.parse_args()).numbers, arguments.commands
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder, "runs")
        for number in numbers:
            # as many run folders with a result each; those that are there already stay
            for index in range(number):
                run = runs / f"run-{index:06d}"
                if not run.exists():
                    run.mkdir(parents=True)
                    (run / "result.json").write_text(json.dumps(result(index), indent=2))
            for command in commands:
                print(measured(number, command, Path(folder)))


def result(index: int) -> dict[str, Any]:
    """The published example, run at a pace of its own: another one slower by a part in a million."""
    document = llmperf_schemas.example("result") | {"run_id": f"run-{index:06d}", "files": {}}
    slower, metrics = 1 + index * 1e-6, document["metrics"]
    for name in ("tokens_per_second_per_device", "tokens_per_second", "power_watts"):
        metrics[name] /= slower
    metrics["window_seconds"] *= slower
    metrics["step_seconds"] = {name: value and value * slower for name, value in metrics["step_seconds"].items()}
    for mfu in document["mfu"]:
        for name in ("value", "of_measured_peak", "of_weighted_peak"):
            mfu[name] = mfu[name] and mfu[name] / slower
    for name in ("achieved_flops_per_second", "share_of_attainable"):
        document["sections"]["roofline"][name] /= slower
    return document


def measured(number: int, command: str, folder: Path) -> str:
    """Two runs on one core, the first to compile; what the second took."""
    output = folder / "report"
    for _ in range(2):
        began = time.perf_counter()
        code, usage = called(command, folder / "runs", output)
        wall = time.perf_counter() - began
    if code:
        sys.exit(f"{command}: expected valid results, found exit code {code}")
    cpu, size = usage.ru_utime + usage.ru_stime, ""
    if output.exists():
        size = f", {output.stat().st_size / 2**20:.0f} MiB written"
        output.unlink()
    memory = usage.ru_maxrss / 1024
    return f"{command}, {number} results: {wall:.1f} s, {cpu:.1f} s of CPU, peak memory {memory:.0f} MiB{size}"


def called(command: str, runs: Path, output: Path) -> tuple[int, Any]:
    """Exit code and resource usage of one `llmperf validate` or `llmperf report`."""
    report = ["report", str(runs), "--format", command, "-o", str(output)]
    argv = [sys.executable, "-m", "llmperf", *(["validate", str(runs)] if command == "validate" else report)]
    child = os.fork()
    if not child:
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        os.execve(argv[0], argv, environment())
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage


def environment() -> dict[str, str]:
    """This process's, with compiled modules kept beside their sources, as an installed package has them."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONDONT", "PYTHONPYCACHE"))}


if __name__ == "__main__":
    main()
