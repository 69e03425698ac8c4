"""How close `llmperf tune` comes to the best of a space in a few trials.

    ./dev python benchmarks/tune_space.py               every combination of a space here, then searches in it
    ./dev python benchmarks/tune_space.py --simulated   60 searches in made-up spaces of 64 combinations

The first measures all combinations with the short runs of a search, and then lets a search look the figures up instead
of measuring again: what counts is which combinations it asks for.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
from pathlib import Path

from llmperf_sweep.tune.candidates import Planned, Search, planned
from llmperf_sweep.tune.space import Candidate, Dimension, Space, parsed
from llmperf_sweep.tune.study import Study, key
from llmperf_sweep.tune.trials import OBJECTIVES, Trial, Trials

THROUGHPUT = [OBJECTIVES["throughput"]]
SEARCHES = (
    "micro_batch=1,2,4,8",
    "sharding_stage=0,1,2,3",
    "gradient_checkpointing=false,true",
    "attention=eager,sdpa",
)
SETTINGS = ("model=llama_tiny", "global_batch=16", "seq_len=128")
SIMULATED = Space(
    dimensions=(
        Dimension(path="tuning.micro_batch", values=("1", "2", "4", "8")),
        Dimension(path="tuning.compile", values=("false", "true")),
        Dimension(path="tuning.gradient_checkpointing", values=("false", "true")),
        Dimension(path="tuning.attention", values=("eager", "sdpa", "flash", "flex")),
    )
)


def searched(space: Space, usable: list[Planned], figures: dict, default: Candidate, trials: int, seed: int) -> float:
    """The true figure of the best trial of one search, as a share of the best of the space."""
    drawn = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        study = Study(Path(folder), space, usable, THROUGHPUT, seed)
        for _ in range(trials):
            values = study.ask(default)
            if values is None:
                break
            figure = figures[key(values)] * drawn.gauss(1, 0.01)
            study.tell(Trial(values=values, state="complete", figures={"throughput": figure}, seconds=1.0))
        return figures[key(study.best()[0].values)] / max(figures.values())


def simulated(trials: int, searches: int) -> None:
    shares = []
    candidates = list(SIMULATED.candidates())
    for seed in range(searches):
        drawn = random.Random(seed)
        effects = {each.path: {value: drawn.gauss(0, 0.15) for value in each.values} for each in SIMULATED.dimensions}
        both: dict[object, float] = {}
        figures = {}
        for values in candidates:
            items = list(values.items())
            total = sum(effects[path][value] for path, value in items)
            for place, first in enumerate(items):
                total += sum(both.setdefault((first, second), drawn.gauss(0, 0.03)) for second in items[place + 1 :])
            figures[key(values)] = math.exp(total)
        usable = [Planned(values=values) for values in candidates]
        shares.append(searched(SIMULATED, usable, figures, candidates[0], trials, seed))
    near = sum(share >= 0.98 for share in shares)
    print(f"{near} of {searches} searches of {trials} trials end within 2 % of the best of 64; worst {min(shares):.3f},"
          f" median {statistics.median(shares):.3f}")  # fmt: skip


def measured(trials: int, out: Path, framework: str, repeats: int) -> None:
    """Figures are kept in `out`, so that an interrupted measurement goes on."""
    out.mkdir(parents=True, exist_ok=True)
    space, kept = parsed(SEARCHES), out / "figures.json"
    search = Search(case="default", framework=framework, devices=1, settings=SETTINGS)
    usable = [each for each in planned(search, list(space.candidates()), out) if not each.refusals]
    figures = {tuple(map(tuple, name)): rate for name, rate in json.loads(kept.read_text())} if kept.exists() else {}
    runner = Trials(search, out, steps=12, warmup_steps=3)
    for number, each in enumerate(usable, 1):
        if key(each.values) in figures:
            continue
        runs = [runner.run(each.values, THROUGHPUT, None) for _ in range(repeats)]
        rates = [trial.figures["throughput"] for trial in runs if trial.state == "complete"]
        figures[key(each.values)] = statistics.median(rates) if rates else 0.0
        kept.write_text(json.dumps([[list(name), rate] for name, rate in figures.items()]))
        print(f"{number} of {len(usable)}: {dict(each.values)}: {figures[key(each.values)]:,.1f} token/p/s", flush=True)
    best = max(figures, key=lambda name: figures[name])
    print(f"{len(usable)} of {space.size} combinations can run; the best: {dict(best)}: {figures[best]:,.1f} token/p/s")
    default = usable[0].values
    shares = [searched(space, usable, figures, default, trials, seed) for seed in range(20)]
    near = sum(share >= 0.98 for share in shares)
    print(f"{near} of 20 searches of {trials} trials ended within 2 % of it; worst {min(shares):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--searches", type=int, default=60)
    parser.add_argument("--framework", default="zero")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("tune-space"))
    options = parser.parse_args()
    if options.simulated:
        simulated(options.trials, options.searches)
    else:
        measured(options.trials, options.out, options.framework, options.repeats)


if __name__ == "__main__":
    main()
