"""A search from beginning to end: candidates planned, trials measured, the winner confirmed against the case."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from llmperf import encode_pretty, read_bytes, write_bytes
from llmperf.errors import UserError

from llmperf_sweep.tune.candidates import Planned, Search, asked, planned
from llmperf_sweep.tune.space import UNSET, Candidate, Dimension, Space, checked, default_space
from llmperf_sweep.tune.study import Study, key
from llmperf_sweep.tune.trials import OBJECTIVES, Objective, Trial, Trials

SETTINGS = "tune.json"
MAX_SETTINGS_BYTES = 2**20
CANNOT_WIN = 1.5
"""A candidate whose estimate promises less than 1 / 1.5 of the best measured throughput is not measured."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """Options of a search, apart from its case."""

    objectives: tuple[str, ...]
    trials: int
    steps: int
    warmup_steps: int
    confirm: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """Whole runs of the best candidate and of the case as it is, in turn."""

    best: tuple[float, ...]
    """Throughput of each, token/p/s."""
    default: tuple[float, ...]
    folders: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """Median of best / default over the pairs."""
        return median(best / default for best, default in zip(self.best, self.default, strict=True))

    @property
    def certain(self) -> bool:
        """There are two pairs or more, and all point the same way."""
        ratios = [best / default for best, default in zip(self.best, self.default, strict=True)]
        return len(ratios) > 1 and (min(ratios) > 1 or max(ratios) < 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """State of a search at its end, or when it was interrupted."""

    search: Search
    space: Space
    objectives: tuple[Objective, ...]
    default: Candidate
    candidates: tuple[Planned, ...]
    """All, with the reasons of those that cannot run."""
    cannot_win: tuple[Candidate, ...]
    """Not measured, by the estimate."""
    trials: tuple[Trial, ...]
    best: tuple[Trial, ...]
    """One trial, or those that none surpasses in every figure; empty if none is complete."""
    plan: Mapping[str, Any]
    """Plan of the unchanged case, from `llmperf plan --json`."""
    confirmation: Confirmation | None = None


class Tuner:
    """One search in one folder."""

    def __init__(self, search: Search, given: Space, wishes: Wishes, folder: Path, say: Say) -> None:
        """Plan the candidates. UserError if the case cannot run, or only as it is."""
        self._search, self._wishes, self._folder, self._say = search, wishes, folder, say
        self.objectives = tuple(OBJECTIVES[name] for name in wishes.objectives)
        document = asked(["plan", *search.words({}), "--json"], folder / "planning.log")
        if document["problems"]:
            problem = document["problems"][0]
            raise UserError(f"{problem['where']}: {problem['message']}")
        self._plan: dict[str, Any] = document["plan"]
        self.default: dict[str, str] = {}
        dimensions = []
        for each in (given if given.dimensions else default_space(self._plan)).dimensions:
            table, _, name = each.path.partition(".")
            value, values = self._plan["spec"].get(table, {}).get(name), each.values
            if value is None:
                own = UNSET if table == "framework" else "none"
            else:
                own = value if isinstance(value, str) else json.dumps(value).replace('", "', '","')
            if own not in values:  # the case itself is a candidate too
                values = (*values, own)
                with suppress(ValueError):
                    values = tuple(sorted(values, key=float))
            self.default[each.path] = own
            dimensions.append(Dimension(path=each.path, values=values))
        space = checked(Space(dimensions=tuple(dimensions)))
        say(f"planning {space.size} combinations of {', '.join(each.path for each in space.dimensions)}")
        self.candidates = tuple(planned(search, list(space.candidates()), folder))
        self.usable = [each for each in self.candidates if not each.refusals]
        if len(self.usable) < 2:
            reasons = dict.fromkeys(reason for each in self.candidates for reason in each.refusals)
            raise UserError(f"--search: no combination but the case itself can run here: {next(iter(reasons), 'none')}")
        left = []  # without values that no usable candidate has, and settings with one value left
        for each in space.dimensions:
            seen = {candidate.values[each.path] for candidate in self.usable}
            values = tuple(value for value in each.values if value in seen)
            if len(values) > 1:
                left.append(Dimension(path=each.path, values=values))
        self.space = Space(dimensions=tuple(left))
        self._study = Study(folder, self.space, self.usable, self.objectives, wishes.seed)
        if self._study.trials:
            say(f"{len(self._study.trials)} trials taken over from the interrupted search")
        self._trials = Trials(search, folder, wishes.steps, wishes.warmup_steps)
        self._confirmation: Confirmation | None = None

    def run(self, show: Callable[[int, Trial, bool], None]) -> None:
        """Measure until the trials are used up or nothing is left. `show` gets each trial, and if it is the best."""
        while len(self._study.trials) < self._wishes.trials:
            values = self._study.ask(self.default, self.cannot_win())
            if values is None:
                return
            complete = [trial for trial in self._study.trials if trial.state == "complete"]
            rates = [rate for trial in complete if (rate := trial.figures.get("throughput")) is not None]
            best = max(rates, default=None) if self._by_time() else None
            trial = self._trials.run(values, self.objectives, best)
            for objective in self.objectives:
                if trial.state == "complete" and trial.figures.get(objective.name) is None:
                    raise UserError(
                        f"--objective {objective.name}: {objective.title} is unknown on this machine"
                        f" (run {trial.folder}); nearest: --objective throughput"
                    )
            self._study.tell(trial)
            show(len(self._study.trials), trial, trial in self._study.best())

    def _by_time(self) -> bool:
        return self._wishes.objectives == ("throughput",)

    def cannot_win(self) -> list[Candidate]:
        """Candidates that an estimate leaves no chance, compared with the best trial and its own estimate."""
        best = self._study.best()
        if not self._by_time() or not best:
            return []
        seconds = {key(each.values): each.step_seconds for each in self.usable}
        reference = seconds.get(key(best[0].values))
        if reference is None:
            return []
        return [
            each.values
            for each in self.usable
            if each.step_seconds is not None and each.step_seconds > CANNOT_WIN * reference
        ]

    def confirm(self) -> None:
        """Run the best candidate and the case as it is in turn, as long as the case says."""
        best = self._study.best()
        if len(self.objectives) > 1 or not best or key(best[0].values) == key(self.default):
            return
        pairs: list[tuple[float, float]] = []
        folders: list[str] = []
        for number in range(1, self._wishes.confirm + 1):
            self._say(f"confirming: pair {number} of {self._wishes.confirm}, whole runs of the best and of the case")
            first, folder, reason = self._trials.whole(best[0].values)
            second, other, problem = self._trials.whole(self.default)
            if first is None or second is None:
                self._say(f"not confirmed: {reason or problem}")
                return
            pairs.append((first, second))
            folders += [folder or "", other or ""]
        if pairs:
            fast, slow = zip(*pairs, strict=True)
            self._confirmation = Confirmation(best=fast, default=slow, folders=tuple(folders))

    def outcome(self) -> Outcome:
        """Current outcome."""
        return Outcome(
            search=self._search,
            space=self.space,
            objectives=self.objectives,
            default=self.default,
            candidates=self.candidates,
            cannot_win=tuple(self.cannot_win()),
            trials=tuple(self._study.trials),
            best=tuple(self._study.best()),
            plan=self._plan,
            confirmation=self._confirmation,
        )


@contextmanager
def working_in(
    folder: Path, search: Search, space: Space, wishes: Wishes, resume: bool
) -> Iterator[Callable[[], None]]:
    """The folder of a search, locked, and a function that writes its options; UserError if it is another search's."""
    path = folder / SETTINGS
    asked_for = {"search": asdict(search), "space": asdict(space), "objectives": list(wishes.objectives),
                 "steps": wishes.steps, "warmup_steps": wishes.warmup_steps, "seed": wishes.seed}  # fmt: skip
    document = json.loads(json.dumps(asked_for))
    if path.exists() and not resume:
        raise UserError(f"{folder}: there is a search already: continue it with --resume, or choose another --out")
    if resume:
        try:
            before = json.loads(read_bytes(path, limit=MAX_SETTINGS_BYTES))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: not valid JSON: {error}") from None
        same = before if isinstance(before, dict) else {}
        if changed := [name for name, value in document.items() if name not in same or same[name] != value]:
            names = ", ".join(changed)
            raise UserError(f"{path}: --resume needs the options of the search's beginning; different: {names}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise UserError(f"{folder}: cannot create: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{folder}: another search is running in it") from None
        yield partial(write_bytes, path, encode_pretty(document))


def reasons(candidates: Sequence[Planned]) -> list[tuple[int, str]]:
    """Reasons why candidates cannot run: the count for each problem code, with one of the messages."""
    counts: dict[str, list[str]] = {}
    for each in candidates:
        for reason in each.refusals[:1]:
            counts.setdefault(reason.rpartition("[")[2], []).append(reason)
    return sorted(((len(messages), messages[0]) for messages in counts.values()), reverse=True)
