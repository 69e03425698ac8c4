"""Choice of the next candidate: an Optuna study whose journal, lines of JSON, outlives the process."""

from __future__ import annotations

import json
import math
import random
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import optuna
from llmperf.errors import UserError
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import Trial as OptunaTrial
from optuna.trial import TrialState

from llmperf_sweep.tune.candidates import Planned
from llmperf_sweep.tune.space import Candidate, Space
from llmperf_sweep.tune.surrogate import most_promising
from llmperf_sweep.tune.trials import Objective, Trial

JOURNAL = "study.jsonl"
NAME = "search"
EVIDENCE = "trial"

Key = tuple[tuple[str, str], ...]


def key(values: Candidate) -> Key:
    """A candidate as a key."""
    return tuple(sorted(values.items()))


class Study:
    """The trials of a search, and what to measure next.

    The next candidate is the most promising one (`surrogate.py`); with several objectives, by a weighted sum whose
    weights are drawn anew for each trial (Knowles 2006, ParEGO).
    """

    def __init__(
        self, folder: Path, space: Space, usable: Sequence[Planned], objectives: Sequence[Objective], seed: int
    ) -> None:
        """Open the study of a folder, or begin one; trials that were cut off are forgotten, to be measured again."""
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        self._space, self._objectives, self._seed = space, tuple(objectives), seed
        self._usable = {key(planned.values): planned for planned in usable}
        path = str(folder / JOURNAL)
        try:
            self._study = optuna.create_study(
                storage=JournalStorage(JournalFileBackend(path, lock_obj=JournalFileOpenLock(path))),
                study_name=NAME,
                directions=["maximize" if objective.highest else "minimize" for objective in objectives],
                load_if_exists=True,
            )
            kept = self._study.get_trials(deepcopy=False)
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: not a journal of a search: {error}") from None
        for trial in kept:
            if trial.state == TrialState.RUNNING:
                self._study.tell(trial.number, state=TrialState.FAIL)
        try:
            documents = [trial.user_attrs[EVIDENCE] for trial in kept if EVIDENCE in trial.user_attrs]
            self.trials = [Trial(**json.loads(json.dumps(document))) for document in documents]
        except TypeError as error:
            raise UserError(f"{JOURNAL}: not a trial of a search: {error}") from None
        """Those that ended, in their order."""
        self._asked: OptunaTrial | None = None

    def ask(self, first: Candidate | None, skip: Iterable[Candidate] = ()) -> Candidate | None:
        """The next candidate: `first` if it was not measured yet, else the most promising one not in `skip`, if any."""
        known = {key(trial.values) for trial in self.trials} | {key(values) for values in skip}
        left = {name: planned.values for name, planned in self._usable.items() if name not in known}
        if not left:
            return None
        if first is not None and key(first) in left:
            return self._begin(first)
        drawn = random.Random(f"{self._seed} {len(self.trials)}")
        weights = [drawn.expovariate(1.0) for _ in self._objectives]
        measured = []  # the logarithm of what is to be high: that of a figure, negative where low figures are good
        for trial in self.trials:
            values = [trial.figures.get(objective.name) for objective in self._objectives]
            if trial.state == "failed" or None in values:
                continue
            logarithms = [math.log(max(value, 1e-300)) for value in values if value is not None]
            signed = [
                value if each.highest else -value for each, value in zip(self._objectives, logarithms, strict=True)
            ]
            total = sum(weight * value for weight, value in zip(weights, signed, strict=True))
            measured.append((trial.values, total / sum(weights)))
        names = [*left, *(key(candidate) for candidate, _ in measured)]
        prior = {
            index: -math.log(seconds)
            for index, name in enumerate(names)
            if name in self._usable and (seconds := self._usable[name].step_seconds)
        }
        candidates = list(left.values())
        by_time = [objective.name for objective in self._objectives] == ["throughput"]
        return self._begin(most_promising(self._space, candidates, measured, prior if by_time else {}))

    def _begin(self, values: Candidate) -> Candidate:
        self._study.enqueue_trial(dict(values))
        self._asked = self._study.ask()
        for each in self._space.dimensions:
            self._asked.suggest_categorical(each.path, each.values)
        return values

    def tell(self, trial: Trial) -> None:
        """Keep what became of the candidate that was asked for last."""
        assert self._asked is not None
        self._asked.set_user_attr(EVIDENCE, asdict(trial))
        values = [trial.figures.get(objective.name) for objective in self._objectives]
        if trial.state == "failed" or None in values:
            self._study.tell(self._asked, state=TrialState.FAIL)
        else:
            self._study.tell(self._asked, [float(value) for value in values if value is not None])
        self.trials.append(trial)
        self._asked = None

    def best(self) -> list[Trial]:
        """The best complete trial; with several objectives all that no other one surpasses in every figure."""
        return front([trial for trial in self.trials if trial.state == "complete"], self._objectives)


def front(trials: Sequence[Trial], objectives: Sequence[Objective]) -> list[Trial]:
    """Trials that no other one equals or surpasses in all figures and surpasses in one."""

    def surpasses(first: Trial, second: Trial) -> bool:
        pairs = [(first.figures[each.name], second.figures[each.name], each) for each in objectives]
        known = [(mine, its, each) for mine, its, each in pairs if mine is not None and its is not None]
        return (
            len(known) == len(pairs)
            and not any(each.better(its, mine) for mine, its, each in known)
            and any(each.better(mine, its) for mine, its, each in known)
        )

    return [trial for trial in trials if not any(surpasses(other, trial) for other in trials)]
