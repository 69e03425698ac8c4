"""Cases that are planned and trained on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import llmperf
from llmperf.errors import UserError

from llmperf_fuzz.cases import DrawnCase, case_of, templates
from llmperf_fuzz.comparison import Outcome, Trained, compared
from llmperf_fuzz.drawing import Settings, Space
from llmperf_fuzz.ranks import Ranks


class Trials:
    """Cases of a framework on several ranks, and of a reference on one; a context manager."""

    def __init__(
        self, framework: str, reference: str, devices: int, fixed: Mapping[str, Any], vendor: str | None = None
    ) -> None:
        """`fixed` are settings that each case has; UserError for a model that does not exist."""
        self._frameworks, self._vendor, self._ranks = (framework, reference), vendor, Ranks()
        self._models = templates()
        if (named := fixed.get("model")) is not None:
            self._models = {named: llmperf.whole_library_for("models", named).model(named, "--set model")}
        mixtures = {name: model.mixture is not None for name, model in self._models.items()}
        self.space = Space.of(mixtures, devices, fixed)
        self.known = dict[str, Trained]()
        """Figures on one rank by case, which several layouts share."""
        stages: tuple[Literal[0, 1, 2, 3], ...] = (0, 1, 2, 3)
        self._stage = stages[0]
        simplest = self.case({path: values[0] for path, values in self.space.values.items()}, 0)
        for stage in stages:  # DeepSpeed's pipelines refuse 0
            tuning = replace(simplest.alone.tuning, sharding_stage=stage)
            problems = llmperf.GivenRun(replace(simplest.alone, tuning=tuning), simplest.model, vendor).problems
            if all(problem.where != "tuning.sharding_stage" for problem in problems):
                self._stage = stage
                break

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self._ranks.close()

    def case(self, settings: Settings, seed: int) -> DrawnCase:
        """The case of these settings; UserError if the facts of its model contradict one another."""
        return case_of(settings, self._models[settings["model"]], *self._frameworks, seed, self._stage)

    def compare(self, settings: Settings, seed: int, fresh: bool = False) -> Outcome | tuple[str, ...]:
        """As `search.Compare` says; UserError if the framework or the vendor cannot be used at all."""
        try:
            case = self.case(settings, seed)
        except UserError as error:  # fuzzed: KEY: expected ...
            return (f"model.{str(error).split(': ')[1]}",)
        plans = []
        for one in (case.layout, case.alone):
            run = llmperf.GivenRun(one, case.model, self._vendor)
            for problem in run.problems:
                if problem.code in ("framework_unusable", "vendor_unusable"):
                    raise UserError(f"{problem.where}: {problem.message}")
            if run.plan is None or run.problems:
                return tuple(problem.where for problem in run.problems)
            plans.append(run.plan)
        key = repr((case.alone, case.model, fresh))
        trained = self._ranks.train(*plans[: 1 if key in self.known else 2], fresh=fresh)
        self.known.setdefault(key, trained[-1])
        return compared(trained[0], self.known[key], case.layout.contract.precision)
