"""token/p/s under llmperf's loop / of a bare loop of the same calls in turn, and the controller's share of CPU time.

./dev python benchmarks/overhead.py --framework zero --pairs 30
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from dataclasses import replace
from pathlib import Path

from llmperf.planning.states import Planned
from llmperf.running.launched import run_plan, save_result
from ranks import planned, report, run_ranks


def under_llmperf(planned_run: Planned, folder: Path) -> float:
    """token/p/s of one whole run."""
    result = run_plan(replace(planned_run.plan, run_id=folder.name), folder, planned_run.plugins, save_result)
    figure = result.metrics.tokens_per_second_per_device
    assert figure is not None, result.failure
    return figure


def controller_share(planned_run: Planned, folder: Path) -> float:
    """CPU time of the controller / CPU time of the agent and its ranks, over a whole run."""
    own, ranks = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    under_llmperf(planned_run, folder)
    after, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime
    return spent / (ended.ru_utime + ended.ru_stime - ranks.ru_utime - ranks.ru_stime)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="default")
    parser.add_argument("--framework", default="zero")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    options = parser.parse_args()
    planned_run = planned(options.case, options.framework, options.settings)
    with tempfile.TemporaryDirectory() as scratch:
        # how much faster the bare stretch of each pair was not: its seconds / ours, by the slowest rank
        folder = Path(scratch) / "pairs"
        ranks = run_ranks("llmperf_rank.py", planned_run.plan, folder, str(options.pairs))
        stretches = zip(*(one["seconds"] for one in ranks), strict=True)
        slowest = [[max(seconds) for seconds in zip(*stretch, strict=True)] for stretch in stretches]
        ratios = [bare / ours for ours, bare in slowest]
        share = controller_share(planned_run, Path(scratch) / "run")
    report(f"overhead, {options.framework}: llmperf's loop / bare loop", ratios, ">= 0.99")
    print(f"controller: {100 * share:.2f} % of the CPU time of the ranks, start-up included")


if __name__ == "__main__":
    main()
