"""Every framework trains the same model from the same start on the same tokens: one table, one plot of the curves.

Runs plain PyTorch (DDP), ZeRO-3, Megatron-DeepSpeed TP2, Paddle TP2, transformers by FSDP2, megatron-core TP2 with
sequence parallelism and torchtitan TP2 through `llmperf run`, then compares the others with PyTorch by `llmperf align`.

    ./dev python benchmarks/same_curve.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

CONTRACT = ("model=llama_tiny", "seq_len=64", "global_batch=4", "precision=fp32", "warmup_steps=0")
FRAMEWORKS = {
    "zero": ("sharding_stage=3",),
    "megatron_deepspeed": ("tensor_parallel=2",),
    "paddle": ("tensor_parallel=2",),
    "transformers": ("sharding_stage=3",),
    "megatron_core": ("tensor_parallel=2", "sequence_parallel=true"),
    "torchtitan": ("tensor_parallel=2",),
    "pytorch": (),
}
"""Tuning of each; the last is the reference."""
REFERENCE = "pytorch"
LIMITS = ("--from-step", "1", "--step-limit", "1e-3")


def train(framework: str, devices: int, steps: int, out: Path) -> Path:
    """One run; its folder."""
    contract = (*CONTRACT, f"steps={steps}", *FRAMEWORKS[framework])
    settings = [word for setting in contract for word in ("--set", setting)]
    folder = out / framework
    command = ["run", "default", "--framework", framework, "--devices", str(devices), "--out", str(folder), *settings]
    print(f"llmperf {' '.join(command)}", flush=True)
    subprocess.run([sys.executable, "-m", "llmperf", *command], check=True, stdout=subprocess.DEVNULL)
    (run,) = folder.iterdir()
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/same_curve"))
    parser.add_argument("--only", action="append", choices=list(FRAMEWORKS), help="against pytorch; may be repeated")
    parser.add_argument("--devices", type=int, default=2, help="ranks; Megatron-DeepSpeed and Paddle need two")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    out, chosen = options.out, {*(options.only or FRAMEWORKS), REFERENCE}
    if out.exists():
        parser.error(f"{out} is there already; name another folder with --out")
    runs = [
        str(train(framework, options.devices, options.steps, out)) for framework in FRAMEWORKS if framework in chosen
    ]
    return subprocess.run([sys.executable, "-m", "llmperf", "align", *runs, *LIMITS]).returncode


if __name__ == "__main__":
    sys.exit(main())
