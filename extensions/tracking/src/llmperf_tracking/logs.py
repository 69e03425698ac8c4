"""`llmperf run --log NAME=VALUE`: observers of runs, by the loggers of extensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import click
import llmperf
from llmperf.errors import PluginError, UserError, unknown
from llmperf.planning import Found, blaming, plugins_for
from llmperf.types import CalledRun, CommandOptions, Logger, Observer

LOGGERS = "llmperf_loggers"


def options() -> CommandOptions:
    """`--log` of `llmperf run`."""
    option = click.Option(
        ["--log", "logs"], metavar="NAME=VALUE", type=llmperf.Utf8(), multiple=True, shell_complete=logger_names,
        help="Log each run by an extension, such as tensorboard=DIR. May be repeated.",
    )  # fmt: skip

    def prepare(called: CalledRun) -> None:
        if logs := called.values["logs"]:  # a wrong one is refused before anything is planned
            list(_named(logs) if called.values["dry_run"] else opened_logs(logs))
            called.follow(partial(opened_logs, logs))

    examples = "  llmperf run default --log tensorboard=boards --log openmetrics=llmperf.prom"
    return CommandOptions(options=[option], prepare=prepare, examples=examples)


def logger_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion for --log."""
    names = {f"{getattr(logger, 'name', '')}=" for _, logger in plugins_for().collect_sound(LOGGERS, [])}
    return sorted(name for name in names if name.startswith(incomplete))


def opened_logs(logs: Sequence[str]) -> list[tuple[Found, Observer]]:
    """New observers of one run, with their plugins; UserError for an unknown name or a value that cannot be used."""
    opened = []
    for found, logger, value in [*_named(logs)]:
        with blaming(found, LOGGERS, limited=False):
            opened.append((found, logger.open(value)))
    return opened


def _named(logs: Sequence[str]) -> Iterator[tuple[Found, Logger, str]]:
    """The loggers that texts `NAME=VALUE` name, with their plugins and values; UserError for an unknown or no value."""
    plugins, loggers = plugins_for(), dict[str, tuple[Found, Logger]]()
    for owner, logger in plugins.collect_items(LOGGERS):
        if not isinstance(logger, Logger):
            raise PluginError(f"{plugins.who(owner)}: expected a Logger of {LOGGERS}, found {type(logger).__name__}")
        if logger.name in loggers:
            other = loggers[logger.name][0].distribution
            what = f"logger {logger.name!r} is offered by {other} too; uninstall one of them"
            raise PluginError(f"{plugins.who(owner)}: {LOGGERS}: {what}")
        loggers[logger.name] = plugins.found(owner), logger
    for text in logs:
        name, _, value = text.partition("=")
        if name not in loggers:
            raise unknown("--log", "logger", name, loggers)
        if not value:
            raise UserError(f"--log: expected {name}={loggers[name][1].value}, found {text!r}")
        yield *loggers[name], value
