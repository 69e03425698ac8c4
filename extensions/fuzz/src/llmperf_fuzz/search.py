"""Drawing, comparing and shrinking of cases until the time is over."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from llmperf.errors import UserError

from llmperf_fuzz.drawing import Settings, Space
from llmperf_fuzz.trials import Outcome

MOST_DRAWS = 400
"""Draws in a row of which none can run, or each repeats a fault that was found."""
SECONDS_BETWEEN_LINES = 10.0
MENDINGS = 8
"""Plans of one draw: settings for which a plan is refused are changed."""

Compare: TypeAlias = Callable[[Settings, int, bool], "Outcome | tuple[str, ...]"]
"""Trains a case with a seed on both sides, in fresh processes if true. If its plan is refused: the paths for which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A case that differs, made small."""

    case: int
    """Number of the draw, which the seed of the search determines."""
    settings: Settings
    seed: int
    """Seed of its contract."""
    outcome: Outcome
    departures: dict[str, Any]
    """Its settings that do not have their simplest value."""
    tried: int = 0
    """Cases that were tried to make it small."""
    smallest: bool = False
    """No single setting can be made simpler; False if the time ended first."""


@dataclass(kw_only=True)
class Search:
    """A search and its counts: of draws, of those compared, of plans refused, of draws that contain a finding."""

    space: Space
    compare: Compare
    seed: int
    say: Callable[[str], None] = lambda line: None
    drawn: int = 0
    cases: int = 0
    refused: int = 0
    repeated: int = 0
    by_chance: list[Settings] = field(default_factory=list)
    """Cases that differed with one seed and not with the next, such as for a token between two experts."""
    found: list[Found] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    """Models for which a plan was made."""
    largest_share: float = 0.0
    """Largest difference of a case that agrees, as a share of the limit."""
    interrupted: bool = False

    def run(self, seconds: float, cases: int | None = None) -> Iterator[Found]:
        """Compare cases until the time is over, so many are compared, or an interruption; UserError if none can run."""
        shown, last = time.monotonic(), 0
        deadline = shown + seconds
        while time.monotonic() < deadline and self.drawn - last < MOST_DRAWS and self.cases != cases:
            known = len(self.found)
            if time.monotonic() - shown > SECONDS_BETWEEN_LINES:
                shown = time.monotonic()
                self.say(f"{self.cases} cases, {self.refused} plans refused, {known} differ")
            try:
                if (drawn := self._drawn()) is not None:
                    last = self.drawn
                    self._judge(*drawn, deadline)
            except KeyboardInterrupt:
                self.interrupted = True
            yield from self.found[known:]
            if self.interrupted:
                return
        if not self.cases:
            raise UserError(f"none of {self.drawn} random cases can run; fix fewer settings with --set")

    def _drawn(self) -> tuple[Settings, int, Outcome] | None:
        """The next case that a plan accepts, its seed and outcome; None if there is none or it repeats a finding."""
        self.drawn += 1
        source = random.Random(f"{self.seed}-{self.drawn}")
        settings, seed = self.space.draw(source), source.randrange(1000)
        for _ in range(MENDINGS):
            if any(found.departures.items() <= settings.items() for found in self.found):
                self.repeated += 1
                return None
            outcome, model = self.compare(settings, seed, False), settings["model"]
            if isinstance(outcome, Outcome):
                self.cases += 1
                self.accepted.add(model)
                return settings, seed, outcome
            self.refused += 1
            mended = self.space.mended(settings, outcome)
            if mended is None:  # another model, of the same kind if there is one
                if model not in self.accepted:
                    self.space = self.space.without(model)
                mended = self.space.fitted({**settings, "model": self.space.draw_model(source, model)})
            settings = mended
        return None

    def _judge(self, settings: Settings, seed: int, outcome: Outcome, deadline: float) -> None:
        """Make a case that differs with two seeds smaller, until no setting can be simpler or the time is over."""
        if not outcome.summary:
            self.largest_share = max(self.largest_share, outcome.share)
            return
        if not outcome.like(self.compare(settings, seed + 1, outcome.step is None)):
            self.by_chance.append(settings)
            return
        self.say(f"draw {self.drawn}: {outcome.summary}; making it smaller")
        away, tried = self.space.departures(settings), set[str]()
        found = Found(case=self.drawn, settings=settings, seed=seed, outcome=outcome, departures=away)
        self.found.append(found)
        shortest = {**settings, "contract.steps": outcome.step or 1}  # later steps change the learning rate alone
        smaller = iter([shortest, *self.space.simpler(settings)])
        while time.monotonic() < deadline:
            if (candidate := next(smaller, None)) is None:
                self.found[-1] = replace(found, tried=len(tried), smallest=True)
                return
            if repr(candidate) in tried:
                continue
            tried.add(repr(candidate))
            again = self.compare(candidate, seed, False)
            if isinstance(again, Outcome) and outcome.like(again):
                away, smaller = self.space.departures(candidate), self.space.simpler(candidate)
                found = replace(found, settings=candidate, outcome=again, departures=away, tried=len(tried))
                self.found[-1] = found
