"""`llmperf run --wait-until-idle`: a run starts when other programs leave its hosts and devices alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import click
import llmperf
from llmperf.errors import LlmperfError, UserError
from llmperf.reporting import duration
from llmperf.types import CalledRun, CommandOptions
from llmperf.types.hosts import LoadBefore

LOOK_SECONDS = 2.0
"""Time over which the load is averaged."""
IDLE_LOOKS = 3
"""Looks in a row at which the machine must be idle: other programs pause for a moment."""
SECONDS_BETWEEN_LINES = 60.0
"""While a run waits until its machine is idle."""


class Minutes(llmperf.Finite):
    """A number of minutes above 0, as the value of an option that may also have none."""

    what = "number of minutes"

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; click's error for anything else, such as the word that follows an option without a value."""
        try:
            float(value)
        except ValueError:
            name = "--wait-until-idle"
            self.fail(f"expected minutes after {name}, found {value!r}; write {name}=30, or put it last.", param, ctx)
        return super().convert(value, param, ctx)


def options() -> CommandOptions:
    """`--wait-until-idle` of `llmperf run`."""
    option = click.Option(
        ["--wait-until-idle"], metavar="[MINUTES]", type=Minutes(), is_flag=False, flag_value=30.0,
        envvar="LLMPERF_WAIT_UNTIL_IDLE",
        help="Start when other programs leave host and devices alone; gives up after MINUTES (30).",
    )  # fmt: skip

    def prepare(called: CalledRun) -> None:
        if (minutes := called.values["wait_until_idle"]) is not None:
            called.before_each(ready_by(minutes))

    return CommandOptions(options=[option], prepare=prepare)


def ready_by(minutes: float) -> Callable[[Any], None]:
    """A function that waits for the machine of a run to be idle, printing a line a minute; StillBusy after that."""
    said: list[float] = []

    def show(busy: str, seconds: float) -> None:
        if not said or seconds - said[-1] >= SECONDS_BETWEEN_LINES:
            said.append(seconds)
            click.echo(f"waiting until idle, {duration(seconds)} of {minutes:g} min: {busy}", err=True)

    def ready(planned: Any) -> None:
        with llmperf.host_loads(planned, LOOK_SECONDS) as look:
            wait(look, 60 * minutes, show)

    return ready


class StillBusy(LlmperfError):
    """The machine was not idle within the time that the user gave."""

    exit_code = UserError.exit_code


def wait(
    look: Callable[[], Mapping[str, LoadBefore]], limit_seconds: float, show: Callable[[str, float], None]
) -> None:
    """Look until every host was idle IDLE_LOOKS times in a row; StillBusy with what was last in the way.

    `show` gets after each look why the machine is not idle yet, and the seconds since the beginning.
    """
    began, idle, busy = time.monotonic(), 0, ""
    while idle < IDLE_LOOKS:
        texts = {host: text for host, load in look().items() if (text := llmperf.busy_text(load)) is not None}
        now, others = "", len(texts) - 1
        for host, text in [*texts.items()][:1]:
            more = f" and on {others} more node{'s' * (others > 1)}" if others else ""
            now = f"node {host}: {text}{more}" if host else text
        idle, busy = (0, now) if now else (idle + 1, busy)
        seconds = time.monotonic() - began
        if idle < IDLE_LOOKS and seconds >= limit_seconds:
            minutes = f"{limit_seconds / 60:g} min"
            raise StillBusy(f"--wait-until-idle: not idle within {minutes}; {busy or 'the time was too short to say'}")
        if idle < IDLE_LOOKS:
            show(now or "idle for the moment", seconds)
