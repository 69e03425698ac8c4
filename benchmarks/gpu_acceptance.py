"""Acceptance on one NVIDIA GPU: what can be shown in 40 minutes, most telling first, as a report and run folders.

Runs in calls of limited length; each continues where the last ended. See docs/acceptance.md.

    python benchmarks/gpu_acceptance.py --out acceptance --seconds 540
    python benchmarks/gpu_acceptance.py --out acceptance --seconds 540 --resume results.tar.gz --archive results.tar.gz
    python benchmarks/gpu_acceptance.py --out acceptance-small --small      # on a CPU
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import time
import zlib
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from gpu_checks import CHECKS, STATE, Acceptance
from gpu_steps import Step, steps

MARGIN_SECONDS = 10.0
"""Left at the end of a call, to write the report."""
OVER = ("passed", "failed", "skipped")
PACKAGES = ("torch", "transformers", "deepspeed", "peft", "triton", "llmperf-core")
GIB = 2**30
RUNS = {
    "Precision": ("precision", "", 1),
    "token/p/s": ("tokens/s", ".1f", 1),
    "Step, s": ("step seconds", ".4f", 1),
    "MFU nominal": ("mfu nominal", ".1%", 1),
    "MFU causal": ("mfu causal", ".1%", 1),
    "Tensors, GiB": ("peak bytes", ".2f", GIB),
    "First loss": ("first loss", ".4f", 1),
    "Final loss": ("final loss", ".4f", 1),
}
"""Columns of runs: the figure, its format, its unit."""
ESTIMATES = {
    "Method": ("method", "", 1),
    "Peak, GiB": ("peak bytes", ".2f", GIB),
    "Measured peak, GiB": ("measured peak bytes", ".2f", GIB),
    "Ratio of memory": ("memory ratio", ".3f", 1),
    "Step, s": ("step seconds", ".4f", 1),
    "Measured step, s": ("measured step seconds", ".4f", 1),
    "Ratio of time": ("time ratio", ".3f", 1),
    "Beside tensors, GiB": ("device bytes beside tensors", ".2f", GIB),
}
MOST_BYTES = 15 * 2**20
"""Size limit of the archive; files that would exceed it are left out, and named."""
HEADER_BYTES = 512
"""Largest header of a member."""
FIRST = (STATE, "report.json", "report.md", "rates.json")
"""Files that resuming needs; always in the archive."""


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
    known = {step.name: step for step in steps(small=options.small)}
    if unknown := {*(options.only or ()), *options.again} - set(known):
        parser.error(f"no step {min(unknown)!r}; expected one of {', '.join(known)}")
    planned = [step for step in known.values() if options.only is None or step.name in options.only]
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


def keep(folder: Path, planned: Sequence[Step], acceptance: Acceptance, archive: Path | None) -> None:
    """Write `report.md` for people and `report.json` for programs, and the archive of everything."""
    machine = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            machine[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            machine[package] = "not installed"
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit", "--format=csv,noheader"]
    try:
        machine["gpu"] = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        machine["gpu"] = "none"
    results = {step.name: acceptance.results.get(step.name, {}) for step in planned}
    (folder / "report.json").write_text(json.dumps({"machine": machine, "steps": results}, indent=1) + "\n")
    lines = ["# Acceptance on a GPU", "", *(f"- {name}: {value}" for name, value in machine.items()), ""]
    lines += ["| Step | Outcome | Seconds | Reason |", "|---|---|---|---|"]
    for name, result in results.items():
        seconds = f"{result['seconds']:.0f}" if "seconds" in result else ""
        reason = (result.get("reason") or "").replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {name} | {result.get('status', 'not run')} | {seconds} | {reason} |")
    figures = [(step, found) for step in planned if (found := results[step.name].get("figures"))]
    runs = [(step.name, found) for step, found in figures if step.kind == "run" and "tokens/s" in found]
    estimates = [(str(step.of), found) for step, found in figures if step.kind == "estimate"]
    lines += ["", "## Runs", "", *table(RUNS, runs)]
    lines += ["", "## Estimates against measurements", "", *table(ESTIMATES, estimates), "", "## Other figures", ""]
    for step, found in figures:
        if step.kind not in ("run", "estimate"):
            lines += [f"### {step.name}", "", "```json", json.dumps(found, indent=1), "```", ""]
    (folder / "report.md").write_text("\n".join(lines) + "\n")
    if archive is not None and (left_out := save(folder, archive)):
        print(f"{archive}: left out as too large: {', '.join(left_out)}", flush=True)


def table(columns: Mapping[str, tuple[str, str, int]], rows: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """A table of figures, whose first column has the name of a run."""
    cells = [["Run", *columns], ["---"] * (1 + len(columns))]
    for name, found in rows:
        shown = ((found[figure], form, unit) for figure, form, unit in columns.values())
        texts = ("" if value is None else format(value / unit if form else value, form) for value, form, unit in shown)
        cells.append([name, *texts])
    return ["| " + " | ".join(row) + " |" for row in cells]


def save(folder: Path, archive: Path, most_bytes: int = MOST_BYTES) -> list[str]:
    """Write the files of a folder into an archive as a whole, small ones first; returns those that are left out."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    names = {path.relative_to(folder).as_posix(): path for path in paths if path.resolve() != archive.resolve()}
    order = sorted(names, key=lambda name: (name not in FIRST, names[name].stat().st_size))
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial, left_out, used = archive.with_name(archive.name + ".new"), [], 0
    with tarfile.open(partial, "w:gz", compresslevel=6) as tar:
        for name in order:
            size = len(zlib.compress(names[name].read_bytes(), 6)) + HEADER_BYTES
            if name not in FIRST and used + size > most_bytes:
                left_out.append(name)
                continue
            tar.add(names[name], arcname=name, recursive=False)
            used += size
    partial.replace(archive)
    return left_out


def resume(archive: Path, folder: Path) -> bool:
    """Unpack an earlier call's archive into a folder without a state of its own; False if it has one already."""
    if (folder / STATE).is_file():
        return False
    with tarfile.open(archive) as tar:
        for member in tar:  # extractall has its filter from Python 3.11.4 on only
            path, file = (folder / member.name).resolve(), tar.extractfile(member) if member.isfile() else None
            if file is not None and path.is_relative_to(folder.resolve()):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.read())
    return True


if __name__ == "__main__":
    sys.exit(main())
