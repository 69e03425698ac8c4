"""Options that plugins add to llmperf's own commands, and what such a plugin sees of a command that was called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from llmperf.types.frozen import dataclass

if TYPE_CHECKING:
    import click

    from llmperf.types.devices import Probe
    from llmperf.types.documents import FileFindings
    from llmperf.types.node_tasks import NodesChecked, ReachedNodes
    from llmperf.types.observing import Observer
    from llmperf.types.plan import Plan
    from llmperf.types.plan_checks import Problem
    from llmperf.types.rank_tasks import FinishedTask
    from llmperf.types.rates import DeviceRates
    from llmperf.types.records import Record
    from llmperf.types.result import Finding, Result
    from llmperf.types.sheet import Sheet

    FurtherChecks: TypeAlias = Callable[[Result, Path, Path | None, Sequence[Finding]], Iterable[Finding]]
    """Checks beyond the rules, of a result, its file, its archive, and the findings of the rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """Options that a plugin adds to one of llmperf's commands."""

    options: Sequence[click.Option] = ()
    """Each with a name that neither the command nor another plugin uses."""
    begin: Callable[[Any], int | None] | None = None
    """Called with the `CalledCommand` (`CalledRun`, `CalledValidate`, `CalledReport`), after its options were read and
    before it does anything. None: the command goes on, with the values as they are then. A number: the plugin has done
    all of it, and the command ends with this exit code. UserError, or click's UsageError, for values that do not go
    together."""
    formats: Mapping[str, Callable[[Sequence[FileFindings]], str]] = field(default_factory=dict)
    """Formats of `llmperf validate --format`: the document of the findings of all files."""
    examples: str = ""
    """Lines for the examples in the command's help."""
    prepare: Callable[[Any], None] | None = None
    """Called as `begin` is, before the `begin` of any plugin: for options that change what the command, or a plugin in
    its place, will do."""


class CalledCommand(Protocol):
    """A command of llmperf whose options were read."""

    @property
    def words(self) -> Sequence[str]:
        """The command line after `llmperf`."""

    @property
    def values(self) -> dict[str, Any]:
        """Every argument and option by its name, such as `devices`. A plugin may change them; the command uses them."""

    def given(self, name: str) -> bool:
        """Check whether an argument or option is on the command line, rather than a default."""

    def check_nodes(self, check: Callable[[ReachedNodes], NodesChecked]) -> None:
        """Have several nodes checked: by `run` before it starts, by `doctor` after their reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoice:
    """Values in which the runs of one command may differ."""

    case: str
    """A name, or the path of a case file."""
    vendor: str | None = None
    """None: as the command says."""
    framework: str | None = None
    """None: the case's own."""
    devices: int | None = None
    """Ranks on each node; None: as the case says."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Value by full path, in place of all `--set` of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChoice:
    """A planned run before it is started."""

    choice: RunChoice
    """The requested values."""
    plan: Plan | None
    """None if there is no layout, or the framework could not be asked; not to be run if there are problems."""
    problems: tuple[Problem, ...]
    """Reasons why it cannot run; empty if it can."""
    probe: Probe
    """The devices that it was planned for."""


class PlannedRun(Protocol):
    """A run that can be started here."""

    @property
    def plan(self) -> Plan:
        """The whole plan."""

    def answers(self, hook: str) -> bool:
        """Check whether a plugin of the run answers a hook."""


class PlannedTask(PlannedRun, Protocol):
    """A run whose ranks do something else in place of the measured steps; it has no result."""

    def run(
        self, out: Path, name: str, task: object, note: str, show: Callable[[Record], None] | None = None
    ) -> FinishedTask:
        """Have the ranks do the `RankTask` of a name in a new folder below `out`; `task` is a dataclass for them.

        `show` is called with each record of rank 0 while the ranks run. RunFailed if a rank fails; `note` is added to
        those of the plan.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCase:
    """A case as it would run, planned to be looked at: nothing is started."""

    plan: Plan | None
    """None if there is no layout, or the framework could not be asked."""
    problems: tuple[Problem, ...]
    """Reasons why it cannot run; empty if it can."""
    assumed_rates: DeviceRates | None
    """Rates that the vendor assumes for the device, also where something else was measured."""
    tuned_elsewhere: tuple[str, ...]
    """Settings that overlays change in the same run on other devices, unless the user sets them, with these devices."""
    smaller: Callable[[], Iterator[tuple[tuple[str, ...], Plan]]]
    """Gives settings that take less memory and have no problems, with their plans: a few, the nearest first."""
    refuse: Callable[[bool], int]
    """Prints the problems, with True the plan as JSON, as `llmperf plan` does; returns the exit code."""


class RunSeries(Protocol):
    """Runs in a row that differ in their choice alone. They use the same nodes as far as they need the same number."""

    def plan(self, choice: RunChoice, *, must_run: bool = False) -> PlannedChoice:
        """Plan a run without its peak, to be looked at. UserError for a choice that is not valid.

        With `must_run`, Refused names every problem.
        """

    def prepare(self, choice: RunChoice) -> Plan:
        """Plan the next run, after the wait for an idle machine if the user asked for it; UserError if it cannot run.

        `Plan.run_id` is the name that its folder must have.
        """

    def begin(self, number: int, runs: int, seconds_left: float | None) -> None:
        """Say which of several runs is next, for the progress line; `seconds_left` is the time that all will take."""

    def run(self, plan: Plan, folder: Path) -> Result:
        """Run the plan that was prepared last, below `folder`; the checked result."""

    def recover(self, folder: Path) -> Result | None:
        """The checked result of a run folder whose llmperf was killed after the run had ended; None if it was cut off.

        Returns when no process of that run is left. Space that was reserved in the folder is given back.
        """


class CalledValidate(CalledCommand, Protocol):
    """`llmperf validate`, whose options were read."""

    def check_results(self, check: FurtherChecks) -> None:
        """Apply a check to each result after the rules. Its arguments: the result, its file, the archive that it was
        unpacked from, and what the rules found.
        """

    def at_end(self, done: Callable[[Sequence[FileFindings]], None]) -> None:
        """Call a function with the findings of all files when they are printed."""


class CalledRun(CalledCommand, Protocol):
    """`llmperf run`, whose options were read."""

    def change_plan(self, change: Callable[[PlannedRun], Plan]) -> None:
        """Have each run made by the plan that a function gives for it; only in `CommandOptions.prepare`.

        The function is called before anything starts, more than once for a run. UserError if the run cannot be so.
        """

    def follow(self, opened: Callable[[], Iterable[tuple[Any, Observer]]]) -> None:
        """Have each run followed by new observers that a function gives, each with the plugin that it is of."""

    def before_each(self, ready: Callable[[Any], None]) -> None:
        """Have a function called with each `PlannedRun` before it starts, which may wait, or raise a LlmperfError."""

    @property
    def choice(self) -> RunChoice:
        """The run that the command line and the user's `llmperf.toml` ask for."""

    def challenged(self, nonce: str) -> None:
        """Take the seed from the nonce of a challenge, 64 hexadecimal digits: it is no departure from the case."""

    def handed_over(self, choices: Sequence[RunChoice], tasks: int = 1) -> int | None:
        """Let the launcher have the whole command run elsewhere, such as by a queue, if it does that.

        The exit code of the command then; None if it goes on here, or there is no launcher. It asks for the nodes of
        the choice that needs most, and for `tasks` tasks that each run a part. With `--dry-run` it shows what it would
        submit.
        """

    def series(self) -> AbstractContextManager[RunSeries]:
        """Runs in a row, as the options of the command say; what was taken of an engine is given back at the end."""


class CalledReport(CalledCommand, Protocol):
    """`llmperf report`, whose options were read."""

    def change_sheets(self, change: Callable[[list[Sheet]], list[Sheet]]) -> None:
        """Have a function called with the sheets that were read; the report is made of those that it returns."""

    def add_note(self, line: str) -> None:
        """Print a line below the report on a terminal; a function of `change_sheets` may still call this."""
