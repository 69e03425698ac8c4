"""CPU time of `llmperf --help`, `llmperf plugins` and `llmperf validate FILE` against `python -c pass`, in pairs.

./dev python benchmarks/startup.py --pairs 15
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import llmperf_schemas

WANTED = {"--help": 50, "plugins": 80, "validate": 150}
"""Milliseconds of CPU."""


def cpu_seconds(argv: Sequence[str], env: Mapping[str, str]) -> float:
    """User and system time of one finished child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    quiet = subprocess.DEVNULL
    subprocess.run(argv, check=True, stdout=quiet, stderr=quiet, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15)
    pairs = parser.parse_args().pairs
    # compiled modules are kept beside their sources, as in an installed package
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONDONT", "PYTHONPYCACHE"))}
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        result.write_text(json.dumps(llmperf_schemas.example("result")))
        for words in (["--help"], ["plugins"], ["validate", str(result)]):
            command, nothing = [str(Path(sys.executable).with_name("llmperf")), *words], [sys.executable, "-c", "pass"]
            cpu_seconds(command, env)  # compiles
            timed = [(cpu_seconds(command, env), cpu_seconds(nothing, env)) for _ in range(pairs)]
            milliseconds = 1000 * statistics.median(ours for ours, _ in timed)
            ratio = statistics.median(ours / theirs for ours, theirs in timed)
            shown = f"{milliseconds:.0f} ms of CPU, {ratio:.1f} x `python -c pass`"
            print(f"llmperf {words[0]}: {shown}; wanted < {WANTED[words[0]]} ms")


if __name__ == "__main__":
    main()
