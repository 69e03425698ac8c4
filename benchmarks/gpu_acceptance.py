"""Acceptance on one NVIDIA GPU: what can be shown in 40 minutes, most telling first, as a report and run folders.

Runs in calls of limited length; each continues where the last ended. See docs/acceptance.md.

    python benchmarks/gpu_acceptance.py --out acceptance --seconds 540
    python benchmarks/gpu_acceptance.py --out acceptance --seconds 540 --resume results.tar.gz --archive results.tar.gz
    python benchmarks/gpu_acceptance.py --out acceptance-small --small      # on a CPU
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

from gpu_archive import resume, save
from gpu_call import STATE, Acceptance
from gpu_checks import CHECKS
from gpu_report import write_report
from gpu_steps import Step, steps

MARGIN_SECONDS = 10.0
"""Left at the end of a call, to write the report."""
OVER = ("passed", "failed", "skipped")


def main() -> int:
    """0 if all steps are over and none has failed, 1 if one has, 3 if steps are left for another call."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("acceptance"), help="folder of state, report and runs")
    parser.add_argument("--seconds", type=float, default=1500.0, help="length of this call")
    parser.add_argument("--small", action="store_true", help="on the CPU, with a tiny model")
    parser.add_argument("--only", action="append", metavar="STEP", help="this step alone; may be repeated")
    parser.add_argument("--again", action="append", default=[], metavar="STEP", help="even if it is over")
    parser.add_argument(
        "--archive", type=Path, metavar="FILE", help="all results in one compressed file, after each step"
    )
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="continue from the archive of an earlier call, if any"
    )
    parser.add_argument("--new", action="store_true", help="forget what an earlier call left")
    options = parser.parse_args()
    began = time.monotonic()
    folder = options.out.absolute()
    if options.new and (folder / STATE).is_file():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if options.resume is not None and options.resume.is_file() and not options.new:
        print(f"resumed from {options.resume}" if resume(options.resume, folder) else f"{folder}: has its own state")
    state = json.loads((folder / STATE).read_text()) if (folder / STATE).is_file() else {"steps": {}}
    ends = began + options.seconds - MARGIN_SECONDS
    acceptance = Acceptance(folder=folder, small=options.small, ends=ends, results=state["steps"])
    planned = [step for step in steps(small=options.small) if options.only is None or step.name in options.only]
    if unknown := {*(options.only or ()), *options.again} - {step.name for step in steps(small=options.small)}:
        names = ", ".join(step.name for step in steps(small=options.small))
        parser.error(f"no step {min(unknown)!r}; expected one of {names}")
    for step in planned:
        over = acceptance.results.get(step.name, {}).get("status") in OVER
        if over and step.name not in options.again:
            continue
        if time.monotonic() + step.expected_seconds > ends:
            break  # in order: the next call begins with this step
        acceptance.run(step, CHECKS[step.kind])
        keep(folder, planned, acceptance, options.archive)
    keep(folder, planned, acceptance, options.archive)
    states = [acceptance.results.get(step.name, {}).get("status") for step in planned]
    print(f"{folder / 'report.md'}: " + ", ".join(f"{states.count(state)} {state}" for state in OVER), flush=True)
    left = sum(state not in OVER for state in states)
    print(f"{left} steps left" if left else "all steps are over")
    return 3 if left else 1 if "failed" in states else 0


def keep(folder: Path, planned: list[Step], acceptance: Acceptance, archive: Path | None) -> None:
    """Write the report, and the archive of everything."""
    write_report(folder, planned, acceptance.results)
    if archive is not None and (left_out := save(folder, archive)):
        print(f"{archive}: left out as too large: {', '.join(left_out)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
