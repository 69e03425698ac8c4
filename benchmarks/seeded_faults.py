"""Does `llmperf fuzz` find faults that are known? Each is seeded into the ranks of a trainer; one row each.

./dev python benchmarks/seeded_faults.py
./dev python benchmarks/seeded_faults.py --only accumulation --seconds 120

No file is changed: a rank replaces the code of one function before it trains, on several ranks and on one.
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import tempfile
import textwrap
import time
from contextlib import ExitStack
from importlib import import_module
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from llmperf import read_toml
from llmperf_fuzz import rank_server
from llmperf_fuzz.search import Search
from llmperf_fuzz.trials import Ranks, Trials

CHOSEN = "SEEDED_FAULT_FILE"
"""Variable with the path of the file that names the fault."""


class Fault(NamedTuple):
    """Text in the source of one function, and the wrong one in its place."""

    title: str
    framework: str
    function: str
    right: str
    wrong: str
    reference: str | None = None


FAULTS = {name: Fault(**fault) for name, fault in read_toml(Path(__file__).with_suffix(".toml")).items()}


def seed(fault: Fault) -> None:
    """Replace the code of the fault's function in this process."""
    module, _, name = fault.function.partition(":")
    function = inspect.unwrap(attrgetter(name)(import_module(module)))
    source = textwrap.dedent(inspect.getsource(function))
    source = source[source.index("def ") :]
    assert source.count(fault.right) == 1, f"{fault.function} has changed: {fault.right}"
    names: dict[str, object] = {}
    text = "from __future__ import annotations\n" + source.replace(fault.right, fault.wrong)
    exec(compile(text, f"<{fault.title}>", "exec"), function.__globals__, names)
    function.__code__ = attrgetter(name.rpartition(".")[2] + ".__code__")(argparse.Namespace(**names))


def serve() -> None:
    """Be the program of the ranks, each of which seeds the chosen fault."""
    train = rank_server.train_rank

    def seeded(arguments: list[str]) -> int:
        name = Path(os.environ[CHOSEN]).read_text()
        if name:
            seed(FAULTS[name])
        return train(arguments)

    rank_server.train_rank = seeded
    sys.argv.remove("--serve")
    rank_server.main()


def main() -> int:
    if "--serve" in sys.argv:
        serve()
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(FAULTS), help="may be repeated")
    parser.add_argument("--seconds", type=int, default=45, help="time limit of each search, its shrinking included")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began, found = time.monotonic(), 0
    Ranks.program = (sys.executable, "-P", __file__, "--serve")
    print("| Seeded fault | Framework | Found after | Cases | Found as | Smallest case |")
    print("|---|---|---:|---:|---|---|", flush=True)
    names = options.only or list(FAULTS)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        chosen, trials_of = Path(folder) / "fault", dict[tuple[str, str], Trials]()
        os.environ[CHOSEN] = str(chosen)
        for name in names:
            fault = FAULTS[name]
            pair = (fault.framework, fault.reference or fault.framework)
            if pair not in trials_of:
                trials_of[pair] = stack.enter_context(Trials(*pair, 4, {}))
                chosen.write_text("")
                next(Search(space=trials_of[pair].space, compare=trials_of[pair].compare, seed=0).run(600, 1), None)
            check = get_context("spawn").Process(target=seed, args=(fault,))
            check.start()
            check.join()
            if check.exitcode:  # a rank that cannot be seeded crashes, which would pass for a find
                parser.error(f"{name}: {fault.function} cannot be seeded with this version")
            chosen.write_text(name)
            trials, start = trials_of[pair], time.monotonic()
            trials.known.clear()
            search = Search(space=trials.space, compare=trials.compare, seed=options.seed, say=say)
            case = next(search.run(options.seconds), None)
            found += case is not None
            away = "" if case is None else ", ".join(f"{path}={value}" for path, value in case.departures.items())
            cells = ("not found", "") if case is None else (case.outcome.summary, away or "several ranks")
            seconds = f"{time.monotonic() - start:.0f} s"
            print(f"| {' | '.join([fault.title, fault.framework, seconds, str(search.cases), *cells])} |", flush=True)
    print(f"\n{found} of {len(names)} faults found in {time.monotonic() - began:.0f} s")
    return 0 if found >= 0.8 * len(names) else 1


def say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
