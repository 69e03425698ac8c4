"""Every framework trains the same model from the same start on the same tokens: one table, one plot of the curves.

Runs plain PyTorch (DDP), ZeRO-3, Megatron-DeepSpeed TP2 and Paddle TP2 through `llmperf run`, then holds the others
against PyTorch with `llmperf align`.

    uv run python benchmarks/same_curve.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

CONTRACT = ("model=llama_tiny", "seq_len=64", "global_batch=4", "precision=fp32", "steps=20", "warmup_steps=0")
FRAMEWORKS = {
    "zero": ("sharding_stage=3",),
    "megatron_deepspeed": ("tensor_parallel=2",),
    "paddle": ("tensor_parallel=2",),
    "pytorch": (),
}
"""Tuning of each; the last is the reference."""
LIMITS = ("--from-step", "1", "--step-limit", "1e-3")


def train(framework: str, out: Path) -> Path:
    """One run on two ranks; its folder."""
    settings = [word for one in (*CONTRACT, *FRAMEWORKS[framework]) for word in ("--set", one)]
    folder = out / framework
    command = ["run", "default", "--framework", framework, "--devices", "2", "--out", str(folder), *settings]
    print(f"llmperf {' '.join(command)}", flush=True)
    subprocess.run([sys.executable, "-m", "llmperf", *command], check=True, stdout=subprocess.DEVNULL)
    (run,) = folder.iterdir()
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/same_curve"))
    out = parser.parse_args().out
    if out.exists():
        parser.error(f"{out} is there already; name another folder with --out")
    runs = [str(train(framework, out)) for framework in FRAMEWORKS]
    return subprocess.run([sys.executable, "-m", "llmperf", "align", *runs, *LIMITS]).returncode


if __name__ == "__main__":
    sys.exit(main())
