"""Every framework trains the same models from the same start on the same tokens, in each of its layouts.

Each run is compared with plain PyTorch in one process, by `llmperf align`: the largest difference of the loss over its
steps, in nats. A layout that a framework refuses for a model has its own words in place of a figure.

    ./dev python benchmarks/same_curve.py
    ./dev python benchmarks/same_curve.py --only torchtitan --models qwen3_tiny
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from llmperf import read_toml

MODELS = ("llama3_tiny", "qwen3_tiny", "qwen3_moe_tiny")
CONTRACT = ("seq_len=64", "global_batch=4", "micro_batch=1", "precision=fp32", "warmup_steps=0")
LAYOUTS = read_toml(Path(__file__).with_suffix(".toml"))
LIMIT = 1e-5


def llmperf(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "llmperf", *words], capture_output=True, text=True)


def train(framework: str, settings: tuple[str, ...], out: Path) -> Path | str:
    """The folder of a run, or the line by which its plan is refused; RuntimeError if a run fails."""
    words = [word for setting in (*CONTRACT, *settings) for word in ("--set", setting)]
    done = llmperf("run", "default", "--framework", framework, "--out", str(out), *words)
    if done.returncode == 0:
        return next(out.iterdir())
    refusals = [line.strip() for line in done.stderr.splitlines() if line.startswith("  ")]
    if done.returncode != 2 or not refusals:
        raise RuntimeError(f"{framework} {' '.join(settings)}: exit code {done.returncode}\n{done.stderr}")
    return refusals[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/same_curve"))
    parser.add_argument("--only", action="append", choices=list(LAYOUTS), help="may be repeated")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    if options.out.exists():
        parser.error(f"{options.out} is there already; name another folder with --out")
    steps, apart, refused = f"steps={options.steps}", list[float](), dict[str, str]()
    references = [
        train("pytorch", ("devices=1", steps, f"model={model}"), options.out / model / "one")
        for model in options.models
    ]
    print(f"| Framework | Layout | {' | '.join(options.models)} |\n|---|---|{'---|' * len(options.models)}", flush=True)
    for framework in options.only or LAYOUTS:
        for layout, settings in LAYOUTS[framework].items():
            cells = []
            for model, reference in zip(options.models, references, strict=True):
                out = options.out / model / f"{framework}, {layout}"
                run = train(framework, (steps, f"model={model}", *settings), out)
                if isinstance(run, str):
                    refused.setdefault(run.partition("; ")[0], f"{framework} {layout}, {model}")
                    cells.append("refused")
                    continue
                compared = llmperf("align", str(run), str(reference), "--json", "--from-step", "1")
                (one,) = json.loads(compared.stdout)
                apart.append(max(abs(step["loss"] - step["reference"]) for step in one["steps"]))
                cells.append(f"{apart[-1]:.1e}")
            print(f"| {framework} | {layout} | {' | '.join(cells)} |", flush=True)
    for line, where in refused.items():
        print(f"\nrefused ({where}): {line}")
    agree = bool(apart) and all(each <= LIMIT for each in apart)  # nan does not
    print(f"\n{len(apart)} runs; the largest difference is {max(apart, default=0):.1e} nats, expected at most {LIMIT}")
    return int(not agree)


if __name__ == "__main__":
    sys.exit(main())
