"""token/p/s under llmperf / token/p/s of a bare loop of the same framework calls, in pairs.

uv run python benchmarks/overhead.py --framework zero --pairs 5
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from llmperf.launching.run import run_plan
from llmperf.planning.draft import Draft
from ranks import planned, report, run_ranks, tokens_per_second_per_device


def under_llmperf(sketch: Draft, folder: Path) -> float:
    assert sketch.plan is not None
    assert sketch.plugins is not None
    result = run_plan(replace(sketch.plan, run_id=folder.name), folder, sketch.plugins)
    figure = result.metrics.tokens_per_second_per_device
    assert figure is not None, result.failure
    return figure


def bare(sketch: Draft, folder: Path) -> float:
    assert sketch.plan is not None
    ranks = run_ranks("bare_loop.py", sketch.plan, folder)
    return tokens_per_second_per_device(sketch.plan, max(rank["seconds"] for rank in ranks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="default")
    parser.add_argument("--framework", default="zero")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--set", dest="settings", action="append", default=["steps=44"])
    options = parser.parse_args()
    sketch = planned(options.case, options.framework, options.settings)
    ratios = []
    with tempfile.TemporaryDirectory() as scratch:
        for pair in range(options.pairs):
            first_llmperf = pair % 2 == 0
            figures = {}
            for ours in (first_llmperf, not first_llmperf):
                folder = Path(scratch) / f"{pair}-{'llmperf' if ours else 'bare'}"
                figures[ours] = under_llmperf(sketch, folder) if ours else bare(sketch, folder)
            ratios.append(figures[True] / figures[False])
            print(f"pair {pair}: llmperf {figures[True]:.1f}, bare {figures[False]:.1f} token/p/s", flush=True)
    report(f"overhead, {options.framework}: llmperf / bare loop", ratios, ">= 0.99")


if __name__ == "__main__":
    main()
