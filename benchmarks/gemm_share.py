"""The default case's share of the GEMM peak of this host: the higher of two measurements, before and after the run.

uv run python benchmarks/gemm_share.py
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from overhead import under_llmperf
from ranks import planned


def gemm_peak(dtype: str) -> float:
    """FLOP/s of the whole host's fastest matrix product, measured now."""
    argv = [sys.executable, "-m", "llmperf_cpu.gemm_peak", "--dtype", dtype]
    printed = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return float(json.loads(printed)["flops_per_second"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="default")
    options = parser.parse_args()
    planned_run = planned(options.case, None, [])
    plan = planned_run.plan
    assert plan is not None
    before = gemm_peak(plan.spec.contract.precision)
    with tempfile.TemporaryDirectory() as scratch:
        figure = under_llmperf(planned_run, Path(scratch) / "run")
    after = gemm_peak(plan.spec.contract.precision)
    peak = max(before, after)  # other work on the machine can only make it look lower
    total = figure * plan.layout.world_size
    print(f"GEMM peak {before / 1e9:.0f} GFLOP/s before, {after / 1e9:.0f} after; {figure:.0f} token/p/s")
    for entry in plan.flops.per_token:
        print(f"{entry.convention}: {total * entry.flops / 1e9:.1f} GFLOP/s, share {total * entry.flops / peak:.3f}")


if __name__ == "__main__":
    main()
