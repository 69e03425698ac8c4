"""Honest runs of all frameworks, under load and with clocks that are set: none may have an error finding.

Busy processes take the CPU from every second run; root sets the clock forward during every fourth (--clock-step).

./dev python benchmarks/honest_runs.py --runs 10
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FRAMEWORKS = ("pytorch", "zero", "megatron_deepspeed", "lora", "paddle")
SETTINGS = (
    (),
    ("micro_batch=1",),
    ("precision=bf16",),
    ("seq_len=128",),
    ("dataset=synthetic",),
    ("steps=30", "warmup_steps=2"),
)
"""Variants of the case that a run draws from."""


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Processes that compute for as long as the context lasts."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


@contextmanager
def stepped_clock(seconds: float, after: float) -> Iterator[None]:
    """The wall clock is set forward once, `after` seconds from now, and back at the end."""
    done = threading.Event()

    def step() -> None:
        time.clock_settime(time.CLOCK_REALTIME, time.time() + seconds)
        done.set()

    timer = threading.Timer(after, step)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if done.is_set():
            time.clock_settime(time.CLOCK_REALTIME, time.time() - seconds)


def llmperf(*words: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run([sys.executable, "-m", "llmperf", *words], capture_output=True, text=True, check=False)


def main() -> int:
    """Make the runs, print what was found; exit code 1 if a run failed or has an error finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--busy", type=int, default=2, help="busy processes beside every second run")
    parser.add_argument("--clock-step", type=float, default=0.0, help="seconds; 0: the clock is left alone")
    parser.add_argument("--model", help="another model than that of the case")
    parser.add_argument("--out", type=Path, help="keep the folders of runs with an error here")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    folder = Path(tempfile.mkdtemp(prefix="llmperf-honest-"))
    codes: Counter[str] = Counter()
    bad = 0
    for number in range(arguments.runs):
        framework = FRAMEWORKS[number % len(FRAMEWORKS)]
        settings = random.choice(SETTINGS)
        words = ["run", "default", "--framework", framework, "--devices", str(random.choice((1, 2)))]
        adapters = ("contract.lora.rank=8",) if framework == "lora" else ()
        model = (f"model={arguments.model}",) if arguments.model else ()
        words += [word for text in ("steps=12", *settings, *adapters, *model) for word in ("--set", text)]
        out = folder / f"{number:03d}"
        loaded = number % 2 * arguments.busy
        stepped = arguments.clock_step if number % 4 == 3 else 0.0
        with busy(loaded), stepped_clock(stepped, random.uniform(4, 12)):
            done = llmperf(*words, "--out", str(out))
        if done.returncode == 2:
            print(f"{number:3} {framework}: refused: {done.stderr.strip().splitlines()[-1][:160]}", flush=True)
            codes["refused"] += 1
            continue
        judged = json.loads(llmperf("validate", "--json", str(out)).stdout)
        findings = [finding for file in judged for finding in file["findings"]]
        codes.update(f"{finding['severity']} {finding['code']}" for finding in findings)
        errors = [finding for finding in findings if finding["severity"] == "error"]
        bad += bool(errors or done.returncode)
        state = "; ".join(f"{error['code']} {error['path']} {error['message']}" for error in errors) or "no error"
        clock = f", clock +{stepped:g} s" if stepped else ""
        print(f"{number:3} {' '.join(words[2:])}, {loaded} busy{clock}: exit {done.returncode}, {state}", flush=True)
        if not errors and not done.returncode:
            shutil.rmtree(out, ignore_errors=True)
        elif arguments.out:
            shutil.copytree(out, arguments.out / out.name, dirs_exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{arguments.runs} runs, {bad} failed or with an error finding; {dict(sorted(codes.items()))}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
