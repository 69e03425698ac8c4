"""CPU time of `llmperf --help` and `llmperf plugins` against `python -c pass`, in pairs.

uv run python benchmarks/startup.py --pairs 15
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence


def cpu_seconds(argv: Sequence[str]) -> float:
    """User and system time of one finished child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15)
    pairs = parser.parse_args().pairs
    nothing = [sys.executable, "-c", "pass"]
    for words in (["--help"], ["plugins"]):
        command = [sys.executable, "-m", "llmperf", *words]
        cpu_seconds(command)
        timed = [(cpu_seconds(command), cpu_seconds(nothing)) for _ in range(pairs)]
        ours = statistics.median(one for one, _ in timed)
        ratio = statistics.median(one / other for one, other in timed)
        print(f"llmperf {words[0]}: {1000 * ours:.0f} ms of CPU, {ratio:.1f} x `python -c pass`; wanted < 100 ms")


if __name__ == "__main__":
    main()
