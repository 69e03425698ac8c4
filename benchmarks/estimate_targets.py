"""Estimates of the best known settings of each target, at the assumed rates of the device.

./dev python benchmarks/estimate_targets.py                # traces each: minutes
./dev python benchmarks/estimate_targets.py --analytic     # by formulas alone: seconds
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from llmperf.cli.request import case_of
from llmperf.files.json_files import convert
from llmperf.files.user_files import read_toml
from llmperf.planning.states import Request, Selection, Site
from llmperf_estimate.estimate import EstimateOptions, estimate
from llmperf_estimate.types import Estimate

TARGETS = Path(__file__).with_suffix(".toml")
FUSED = 'tuning.fused_ops=["auto"]'
"""Set for every target."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A case with its best known settings, and the MFU that it is to reach."""

    name: str
    case: str
    on: str
    settings: tuple[str, ...]
    convention: str
    wanted: float
    published: float | None = None
    framework: str | None = None
    network: float | None = None
    """Gb/s of each node."""


def estimated(target: Target, analytic: bool) -> Estimate | None:
    """The estimate; None, with the reasons on standard error, if the settings do not fit together."""
    request = Request(
        Selection(target.case, framework=target.framework, settings=(FUSED, *target.settings)), Site(on=target.on)
    )
    network = None if target.network is None else target.network * 1e9 / 8
    options = EstimateOptions(analytic=analytic, network_bytes_per_second=network, trace_seconds=3600)
    case = case_of(request)
    made = estimate(case, options, lambda line: print(f"{target.name}: {line}", file=sys.stderr))
    if made is None:
        for problem in case.problems:
            print(f"{target.name}: {problem.where}: {problem.message}", file=sys.stderr)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analytic", action="store_true")
    parser.add_argument("--only", default="", help="part of the name of targets")
    options = parser.parse_args()
    print("| Target | Settings | By | Fits | Wanted | At assumed rates | As published runs lose | Published |")
    print("|---|---|---|---|---|---|---|---|")
    for target in (convert(facts, Target, TARGETS.name) for facts in read_toml(TARGETS)["target"]):
        if options.only in target.name:
            print(row(target, estimated(target, options.analytic)), flush=True)


def row(target: Target, made: Estimate | None) -> str:
    """One line of the table."""
    published = "-" if target.published is None else f"{target.published:.1%}"
    settings = ", ".join(setting.removeprefix("tuning.") for setting in (FUSED, *target.settings))
    name = f"{target.name}, {target.on}"
    if made is None or made.time is None:
        return f"| {name} | {settings} | - | - | {target.wanted:.0%} | - | - | {published} |"
    expected = next(mfu.value for mfu in made.mfu if mfu.convention == target.convention) or 0.0
    ideal = expected * made.time.seconds / (made.time.seconds - made.time.loss_seconds)
    methods = " and ".join(dict.fromkeys(stage.method for stage in made.memory))
    fits = "yes" if made.fits else "no"
    wanted = f"{target.wanted:.0%} {target.convention}"
    return f"| {name} | {settings} | {methods} | {fits} | {wanted} | {ideal:.1%} | {expected:.1%} | {published} |"


if __name__ == "__main__":
    main()
