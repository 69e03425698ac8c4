"""The default case's share of the GEMM peak of this host: the higher of two measurements, before and after the run.

./dev python benchmarks/gemm_share.py
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from llmperf_cpu.gemm_peak import SECONDS
from overhead import under_llmperf
from ranks import planned


def gemm_peak(dtype: str, seconds: float) -> float:
    """FLOP/s of the whole host's fastest matrix product, measured now; `seconds` for each size."""
    argv = [sys.executable, "-m", "llmperf_cpu.gemm_peak", "--dtype", dtype, "--seconds", str(seconds)]
    printed = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return float(json.loads(printed)["flops_per_second"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="default")
    parser.add_argument("--framework", help="by default that of the case")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each size of product")
    options = parser.parse_args()
    planned_run = planned(options.case, options.framework, options.settings)
    plan = planned_run.plan
    assert plan is not None
    before = gemm_peak(plan.spec.contract.precision, options.seconds)
    with tempfile.TemporaryDirectory() as scratch:
        figure = under_llmperf(planned_run, Path(scratch) / "run")
    after = gemm_peak(plan.spec.contract.precision, options.seconds)
    peak = max(before, after)  # other work on the machine can only make it look lower
    total = figure * plan.layout.world_size
    print(f"GEMM peak {before / 1e9:.0f} GFLOP/s before, {after / 1e9:.0f} after; {figure:.0f} token/p/s")
    for entry in plan.flops.per_token:
        print(f"{entry.convention}: {total * entry.flops / 1e9:.1f} GFLOP/s, share {total * entry.flops / peak:.3f}")


if __name__ == "__main__":
    main()
