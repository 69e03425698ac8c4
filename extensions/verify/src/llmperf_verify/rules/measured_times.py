"""Times that nobody measured: clocks of a run that contradict one another, windows of ranks that are not those that the
agents of their nodes saw, by clocks that code in a rank cannot change, and step times that come again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from llmperf import recorded
from llmperf.types import MemorySample, Text, Violation
from llmperf.validation import RunRecords, SeenPhase, figure, pointer, rule

from llmperf_verify.rules.own_records import OwnRecords, own_records

SHORTEST = 0.5
"""Seconds of an interval: shorter ones say little, as a busy host may pause a process between two readings."""
RATE = 0.02
"""Share by which two clocks may differ in an interval; time servers change the rate of a clock by at most 0.0005."""
APART_SECONDS = 0.05
"""Time that may pass between the readings of two clocks at one moment."""
LATE_SHARE = 0.05
LATE_SECONDS = 1.0
"""Most seconds by which the agent's view of a window may differ from its length: it looks every 0.2 s, and later on a
host whose cores are all busy. With twice as many busy processes as cores it differed by 0.2 s. Where the agent says
that more time passed between its looks, that counts instead."""
RUN_SHARE = 0.01
"""The share is that of a window, which the agent may see in whole looks only; of a whole run it is this."""
EARLY_SECONDS = 0.05
"""An agent sees a phase after it began, but for the rounding of clocks."""
WALL = Text("by the wall clock of the host")
UPTIME = Text("by the uptime that the kernel shows")
FEWEST_STEPS = 4
"""Fewer may be equal by chance where an event's clock is coarse."""
FEWEST_PERIODIC = 16
"""Times of which none comes again by chance, one after the other, or is that of another rank times a factor."""
FEWEST_VALUES = 6
"""Different times in a period: where a clock is coarse, a few values come again by chance."""
MOST_COMPARED = 20_000
"""Steps of a rank that are searched for a period."""
SAME_SHARE = 0.8
"""Share of a rank's measured steps: events count in microseconds or less, and steps of training differ by more."""


class Clocks(NamedTuple):
    """The seconds that two clocks showed for the same time."""

    first: float
    second: float

    @property
    def alike(self) -> bool:
        """They differ by no more than the rates of clocks do."""
        return abs(self.first - self.second) <= RATE * max(self.first, self.second) + APART_SECONDS


class ClockRates:
    """Lengths of intervals of one run by either clock, reading by reading."""

    __slots__ = ("_before", "_intervals", "_longer", "_shorter")

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None
        self._intervals = 0
        self._longer: list[Clocks] = []
        self._shorter: list[Clocks] = []

    def add(self, first: float, second: float) -> None:
        """Add what both clocks show at one moment."""
        if self._before is not None:
            passed = Clocks(first - self._before[0], second - self._before[1])
            if max(passed) < SHORTEST:
                return
            self._intervals += 1
            if not passed.alike:
                (self._longer if passed.first > passed.second else self._shorter).append(passed)
        self._before = first, second

    @property
    def contradiction(self) -> Clocks | None:
        """The intervals that are longer (or shorter) by the first clock, added up; None unless most are, and two."""
        wrong = max(self._longer, self._shorter, key=len)  # a late reading makes one longer and the next shorter
        if len(wrong) < 2 or 2 * len(wrong) <= self._intervals:
            return None
        return Clocks(sum(each.first for each in wrong), sum(each.second for each in wrong))


class Window(NamedTuple):
    """A rank's window, and as the agent of its node saw it."""

    own: OwnRecords
    claimed: float
    """Seconds by the phases of the rank."""
    seen: float
    """Seconds by the agent's own clock."""
    uptime: float | None
    """Seconds by the kernel's text."""
    late: float
    """Seconds by which it may differ from the window as the agent looks now and then."""

    @property
    def alike(self) -> bool:
        """It lasted as long as the agent saw."""
        return abs(self.claimed - self.seen) <= LATE_SHARE * self.seen + self.late


@rule("LP656", "error", "A rank's window is as long as its node's agent saw", "run")
def windows_are_those_that_agents_saw(records: RunRecords) -> Iterator[Violation]:
    """Yields windows that contradict what the agents saw."""
    for window in _windows(records):
        if isinstance(window, Window) and not window.alike:
            rank, seen, claimed = window.own.rank.rank, figure(window.seen), figure(window.claimed)
            because = Text("from measuring to evaluating of rank {}, as the agent of its node saw", rank)
            message = Text("expected a window of about {} s ({}), found {} s", seen, because, claimed)
            yield window.own.pointer, message


@rule("LP657", "warning", "A rank's window was seen by its node's agent, whose clock was not changed", "run")
def agents_saw_the_windows(records: RunRecords) -> Iterator[Violation]:
    """Yields windows that no agent saw, and those that lasted otherwise by the kernel."""
    for window in _windows(records):
        if isinstance(window, OwnRecords):
            message = "expected when the agent of its node saw rank {} measuring and evaluating, found nothing"
            if "llmperf.launching.agent" in records.plan.worker.agent:
                yield window.pointer, Text(message, window.rank.rank)
        elif window.alike and window.uptime is not None and not Clocks(window.seen, window.uptime).alike:
            found = Text("{} s by the agent's clock: it was changed, or the host slept", figure(window.seen))
            message = "expected a window of about {} s ({}), found {}"
            yield window.own.pointer, Text(message, figure(window.uptime), UPTIME, found)


@rule("LP666", "error", "The clocks of a run agree with one another", "run")
def clocks_agree(records: RunRecords) -> Iterator[Violation]:
    """Yields the first of the clocks that ran at another rate: all others have the same cause."""
    yield from islice(_contradictions(records), 1)


def _windows(records: RunRecords) -> Iterator[Window | OwnRecords]:
    """Windows as the agents saw them, and the ranks whose window no agent saw; of a script, that of its teller."""
    script, seen = records.plan.worker.script, _seen(records)
    warm = records.plan.spec.contract.warmup_steps > 0
    for own in own_records(records):
        if own.edges is None or (script is not None and (own.rank.rank != script.step_rank or not warm)):
            continue
        phases = {phase.phase: phase for phase in seen.get(own.rank.rank, ())}
        begin, end = phases.get("measuring"), phases.get("evaluating")
        if begin is None or end is None:
            yield own
            continue
        uptime = None if begin.uptime is None or end.uptime is None else end.uptime - begin.uptime
        claimed, watched = own.edges[1] - own.edges[0], end.monotonic - begin.monotonic
        yield Window(own, claimed, watched, uptime, _late(begin, end))


def _seen(records: RunRecords) -> dict[int, Sequence[SeenPhase]]:
    """The phases of each rank, as the agent of its node saw them."""
    return {rank.rank: rank.phases for report in records.reports for rank in report.ranks}


def _contradictions(records: RunRecords) -> Iterator[Violation]:
    """Clocks that ran at other rates through the run, whatever the measured window alone shows."""
    of_nodes: dict[int, ClockRates] = defaultdict(ClockRates)
    for path, samples in recorded(records.run):
        for sample in samples if path.name.startswith("memory") else ():
            if isinstance(sample, MemorySample):
                of_nodes[sample.node_rank].add(sample.at, sample.monotonic)
    for rates in of_nodes.values():
        if (wrong := rates.contradiction) is not None:
            yield _contradiction(pointer(["files", "memory.jsonl"]), *wrong, WALL, Text("the monotonic clock"))
    seen = _seen(records)
    for own in own_records(records):
        rank, rates, uptimes = own.rank.rank, ClockRates(), ClockRates()
        for phase in own.phases:
            rates.add(phase.at, phase.monotonic)
        if (wrong := rates.contradiction) is not None:
            yield _contradiction(own.pointer, *wrong, WALL, Text("the monotonic clock of rank {}", rank))
        phases = seen.get(rank, ())
        for look in phases:
            if look.uptime is not None:
                uptimes.add(look.uptime, look.monotonic)
        if (wrong := uptimes.contradiction) is not None:
            yield _contradiction(own.pointer, *wrong, UPTIME, Text("the agent's clock"))
        yield from _apart(own, phases)


def _apart(own: OwnRecords, phases: Sequence[SeenPhase]) -> Iterator[Violation]:
    """Phases that the agent saw before they began, or a run that took another time by its clock, which is the same."""
    entered = {phase.phase: phase.monotonic for phase in reversed(own.phases)}
    both = [(entered[look.phase], look) for look in phases if look.phase in entered]
    if not both:
        return
    rank = own.rank.rank
    for moment, look in both:
        if look.monotonic < moment - EARLY_SECONDS:
            message = Text(
                "expected a phase of rank {} at {} s or before, when its agent saw it", rank, figure(look.monotonic)
            )
            yield own.pointer, Text("{}, found {} s", message, figure(moment))
            return
    first, last = both[0], both[-1]
    ran, watched = last[0] - first[0], last[1].monotonic - first[1].monotonic
    if abs(ran - watched) > RUN_SHARE * watched + _late(first[1], last[1]):
        yield _contradiction(
            own.pointer, watched, ran, Text("by the agent's clock"), Text("the clock of rank {}", rank)
        )


def _contradiction(path: str, expected: float, found: float, by: str, other: str) -> Violation:
    message = Text("expected {} s ({}), found {} s by {}", figure(expected), by, figure(found), other)
    return path, Text("{}: one of the clocks was changed", message)


def _late(*looks: SeenPhase) -> float:
    """Seconds by which the time between two looks may differ from the time between what they saw."""
    return max(LATE_SECONDS, sum(look.late for look in looks))


@rule("LP648", "error", "A rank's steps differ in time", "run")
def steps_differ(records: RunRecords) -> Iterator[Violation]:
    """Steps of ranks take different times; a script may print few digits."""
    for own in own_records(records) if records.plan.worker.script is None else ():
        yield from ((own.pointer, message) for message in (*_same_steps(own), *_repeated_steps(own)))


@rule("LP649", "error", "Two ranks differ in their step times", "run")
def ranks_differ(records: RunRecords) -> Iterator[Violation]:
    """Two processes never take the same time to the nanosecond, step after step."""
    seen: dict[bytes, int] = {}
    shapes: dict[bytes, int] = {}
    for own in own_records(records) if records.plan.worker.script is None else ():
        rank, steps = own.rank.rank, own.totals.measured_steps
        expected = Text("expected step_seconds of rank {}'s own", rank)
        if steps >= FEWEST_STEPS and (first := seen.setdefault(own.totals.times_digest, rank)) != rank:
            yield own.pointer, Text("{}, found those of rank {}", expected, first)
        elif steps >= FEWEST_PERIODIC and (first := shapes.setdefault(own.totals.shape_digest, rank)) != rank:
            yield own.pointer, Text("{}, found those of rank {} times one factor", expected, first)


def _same_steps(own: OwnRecords) -> Iterator[str]:
    steps = own.totals.measured_steps
    if steps < FEWEST_STEPS or not own.totals.may_repeat(SAME_SHARE):
        return
    times = Counter(step.step_seconds for step in own.steps() if step.measured)
    seconds, count = times.most_common(1)[0]
    if count >= SAME_SHARE * steps:
        yield Text("expected step_seconds that differ, found {!r} in {} of {} measured steps", seconds, count, steps)


def _repeated_steps(own: OwnRecords) -> Iterator[str]:
    """Step times that come again in the same order, which a recorded run that is played back has."""
    if own.totals.measured_steps < FEWEST_PERIODIC or own.totals.first_again < 1:
        return
    times = [step.step_seconds for step in islice(own.steps(), MOST_COMPARED) if step.measured]
    for period in range(1, len(times) - FEWEST_PERIODIC + 1):
        if times[period] == times[0] and times[period:] == times[:-period]:
            if len(set(times[:period])) >= FEWEST_VALUES:
                found = Text("those of {} steps again and again in {} steps", period, len(times))
                yield Text("expected step_seconds that differ, found {}", found)
            return
