"""How far apart an honest run and its reruns are: speed, memory and measured peak, on this machine as busy as it is.

python benchmarks/rerun_spread.py --out runs/spread --reruns 3

Runs small cases by several frameworks on one rank and two, reruns the first steps of each, and prints one line of JSON
for each rerun: each claim's `times_as_good`, also where the machine was too busy for `llmperf validate` to compare it,
with that reason. Finally the range of each figure over the undisturbed reruns and over all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from unittest.mock import patch

from llmperf.files import json_files
from llmperf.runfolder.filenames import RESULT
from llmperf.types import Result
from llmperf.verifying import claims
from llmperf.verifying.rerun import rerun_check

LORA = ("contract.lora.rank=8", "contract.lora.dropout=0")
RUNS = {
    f"{framework}-{ranks}": (framework, ranks, settings)
    for framework, settings in (("pytorch", ()), ("zero", ()), ("lora", LORA))
    for ranks in (1, 2)
}
SETTINGS = ("model=llama_tiny", "dataset=synthetic", "seq_len=128", "warmup_steps=2")


def submission(name: str, steps: int, out: Path) -> Path:
    """The folder of an honest run, made if it is not there."""
    framework, ranks, settings = RUNS[name]
    if not (out / name).is_dir():
        words = [f"--set={setting}" for setting in (*SETTINGS, f"steps={steps}", *settings)]
        command = ["run", "default", "--framework", framework, "--vendor", "cpu", "--devices", str(ranks), *words]
        subprocess.run([sys.executable, "-m", "llmperf", *command, "--out", str(out / name)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    return next((out / name).iterdir())


def rerun(folder: Path, steps: int) -> dict[str, object]:
    """The figures of one rerun, compared however busy the machine is, and what disturbed it."""
    disturbed: list[str | None] = []
    busy = claims._busy

    def noted(here: Result) -> None:
        disturbed.append(busy(here))

    result = json_files.load(folder / RESULT, Result)
    with patch.object(claims, "_busy", noted):
        check = rerun_check(folder, result, steps)
    figures = {claim.claim: claim.times_as_good for claim in check.claims}
    unnoticed = [claim.claim for claim in check.claims if claim.outcome == "better"]
    return {"outcome": check.outcome, "disturbed": disturbed and disturbed[0], "better": unnoticed, **figures}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Spread of reruns of honest runs")
    parser.add_argument("--out", type=Path, default=Path("runs/spread"))
    parser.add_argument("--steps", type=int, default=40, help="of the runs")
    parser.add_argument("--rerun", type=int, default=10, help="steps to rerun")
    parser.add_argument("--reruns", type=int, default=3, help="of each run")
    parser.add_argument("--only", action="append", choices=list(RUNS), help="this run alone; may be repeated")
    options = parser.parse_args()
    known: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for number in range(options.reruns):
        for name in options.only or RUNS:
            found = rerun(submission(name, options.steps, options.out), options.rerun)
            print(json.dumps({"run": name, "rerun": number + 1, **found}), flush=True)
            for claim in claims.TOLERANCE:
                if isinstance(value := found.get(claim), float):
                    known[claim, not found["disturbed"]].append(value)
    for (claim, quiet), values in sorted(known.items()):
        where = "undisturbed" if quiet else "disturbed"
        print(f"{claim}, {len(values)} {where} reruns: {min(values):.3f} to {max(values):.3f} times as good")


if __name__ == "__main__":
    main()
