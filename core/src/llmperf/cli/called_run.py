"""`llmperf run` as its own code and the plugins that add options to it see it: the request, and runs in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.open_command import CalledCommand, OpenCommand
from llmperf.cli.output import without_readers
from llmperf.cli.request import request
from llmperf.files.text import printable

if TYPE_CHECKING:
    from llmperf.planning.states import Request
    from llmperf.types.commands import PlannedRun, RunChoice, RunSeries
    from llmperf.types.plan import Plan

MAX_LINE = 2000
"""Characters of a line that a launcher or a node gave."""


class CalledRun(CalledCommand):
    """Implements `llmperf.types.CalledRun`."""

    def __init__(self, ctx: click.Context) -> None:
        """UserError if the working directory does not exist any more."""
        from llmperf.errors import UserError

        super().__init__(ctx)
        self._changes: list[Callable[[PlannedRun], Plan]] = []
        self._followers: list[Callable[[], Any]] = []
        self.before: list[Callable[[PlannedRun], None]] = []
        """Functions of plugins that are called before each run."""
        if self.values["dry_run"]:
            return
        try:
            Path.cwd()
        except FileNotFoundError:  # the command adds that the working directory is gone
            raise UserError(f"{self.values['out']}: cannot create") from None
        ctx.with_resource(without_readers())

    def change_plan(self, change: Callable[[PlannedRun], Plan]) -> None:
        """Have each run made by the plan that a function gives for it."""
        self._changes.append(change)

    def follow(self, opened: Callable[[], Any]) -> None:
        """Have each run followed by the observers that a function gives, with their plugins."""
        self._followers.append(opened)

    def before_each(self, ready: Callable[[PlannedRun], None]) -> None:
        """Have a function called before each run, in the name of the plugin whose options begin."""
        self.before.append(self._blamed(ready, "before a run"))

    @cached_property
    def request(self) -> Request:
        """The request for the options as they are when it is first asked for."""
        return request(self.values, changes=tuple(self._changes), followers=tuple(self._followers))

    @property
    def choice(self) -> RunChoice:
        """The run that the command line and the user's `llmperf.toml` ask for."""
        from llmperf.cases.settings import from_command_line
        from llmperf.types.commands import RunChoice

        selection, site, _ = self.request
        settings = {setting.path: setting.value for setting in from_command_line(selection.settings)}
        return RunChoice(
            case=selection.case,
            vendor=site.vendor,
            framework=selection.framework,
            devices=site.devices,
            settings=settings,
        )

    def challenged(self, nonce: str) -> None:
        """Take the seed from the nonce of a challenge."""
        selection = replace(self.request.selection, challenge=nonce)
        self.request = self.request._replace(selection=selection)

    def handed_over(self, choices: Sequence[RunChoice] = (), tasks: int = 1) -> int | None:
        """The exit code if the launcher has had the command run elsewhere, or has shown what it would submit."""
        from llmperf.planning.nodes import node_request, nodes_wanted, open_launcher
        from llmperf.running.measure import chosen
        from llmperf.types.launching import Submission

        if self.request.site.launcher == "local":
            return None
        out: Path = self.values["out"]
        asked = [chosen(self.request, choice) for choice in choices] or [self.request]
        nodes, site = max(((nodes_wanted(one.selection, one.site), one.site) for one in asked), key=lambda one: one[0])
        launcher, dry = site.opened or open_launcher(site.launcher, site.vendor), self.values["dry_run"]
        command = tuple(word for word in self.words if not (dry and word == "--dry-run"))
        request = node_request(site, nodes)
        submission = Submission(command=command, request=request, out=str(out.absolute()), tasks=tasks)
        if not dry:
            self.request = self.request._replace(site=replace(self.request.site, opened=launcher))
            return launcher.hand_over(submission, say)
        if (text := launcher.preview(submission)) is not None:
            click.echo(text)
        return None if text is None else 0

    @contextmanager
    def series(self) -> Iterator[RunSeries]:
        """Runs in a row, as the options of the command say."""
        from llmperf.cli.progress_line import begin_run
        from llmperf.running.measure import Series

        series = Series(self.request, warn, self.before, begin_run)
        try:
            yield series
        finally:
            series.close()


class RunCommand(OpenCommand):
    """`llmperf run`, to which plugins add options."""

    called = CalledRun


def say(line: str) -> None:
    """Print a line on standard error, harmless and of bounded length."""
    click.echo(printable(line, " ")[:MAX_LINE], err=True)


def warn(line: str) -> None:
    """Print a warning on standard error."""
    say(f"warning: {line}")
