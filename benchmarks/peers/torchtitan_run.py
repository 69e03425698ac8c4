"""Throughput and CPU time of `pytorch` (FSDP2) and of torchtitan 0.3.0: same model shape, batch, precision, steps.

torchtitan is installed into an environment of its own in the user's cache, with this workspace's torch. Two ratios:
torchtitan with the variables that llmperf's vendor plugin sets for its ranks, and with its share of the cores alone.

    ./dev python benchmarks/peers/torchtitan_run.py --rounds 5
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from rounds import compare, sides

sys.path.insert(0, str(Path(__file__).parents[1]))
from ranks import planned

RELEASE = "0.3.0"


def environment() -> Path:
    """The Python of an environment with torchtitan, made once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    torch = version("torch").partition("+")[0]
    folder = cache / "llmperf-peers" / f"torchtitan-{RELEASE}-torch-{torch}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run(["uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], check=True)
        packages = [f"torchtitan=={RELEASE}", f"torch=={torch}"]
        subprocess.run(["uv", "pip", "install", "--quiet", "--python", str(python), *packages], check=True)
        (folder / "complete").touch()
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunked", action="store_true", help="torchtitan's loss in chunks of the sequence")
    parser.add_argument("--compiled", action="store_true", help="torchtitan with torch.compile")
    parser.add_argument("--set", dest="settings", action="append", default=["sharding_stage=2", "steps=65"])
    options = parser.parse_args()
    words = ["chunked"] * options.chunked + ["compiled"] * options.compiled
    plan = planned(options.case, "pytorch", options.settings).plan
    assert plan is not None
    script = "peers/torchtitan_rank.py"
    ways = sides(plan, script, ("OMP_NUM_THREADS",), *words, python=str(environment()))
    compare("pytorch (FSDP2) against torchtitan", plan, ways, options.rounds)


if __name__ == "__main__":
    main()
