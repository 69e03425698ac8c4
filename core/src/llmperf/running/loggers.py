"""`llmperf run --log NAME=VALUE`: the loggers of extensions, and the observers that they open."""

from __future__ import annotations

from collections.abc import Sequence

from llmperf.errors import PluginError, UserError, unknown
from llmperf.plugins.discovery import Found
from llmperf.plugins.faults import blaming, who
from llmperf.plugins.loading import Plugins, plugins_for
from llmperf.plugins.mending import install_own
from llmperf.plugins.own_packages import project_packages, published_package
from llmperf.running.observers import checked_observer
from llmperf.types.observing import Logger, Observer

HOOK = "llmperf_loggers"


def check_logs(logs: Sequence[str], *, opening: bool = True) -> None:
    """UserError, before anything is planned, for a `--log` that cannot be opened; without `opening`, for its name."""
    if logs and opening:
        opened_logs(plugins_for(), logs)
    elif logs:
        loggers = _loggers(plugins_for())
        for text in logs:
            _logger(text, loggers)


def opened_logs(plugins: Plugins, logs: Sequence[str]) -> list[tuple[Found, Observer]]:
    """New observers of one run, with the plugins that they come from.

    UserError for an unknown name, a value that cannot be used, or a library that is not installed.
    """
    if not logs:
        return []
    loggers = _loggers(plugins)
    return [_opened(text, loggers) for text in logs]


def _loggers(plugins: Plugins) -> dict[str, tuple[Found, Logger]]:
    loggers: dict[str, tuple[Found, Logger]] = {}
    for owner, answer in plugins.collect_items(HOOK):
        found = plugins.found(owner)
        if not isinstance(answer, Logger):
            raise PluginError(f"{plugins.who(owner)}: expected a Logger of {HOOK}, found {type(answer).__name__}")
        logger = answer
        if logger.name in loggers:
            raise PluginError(
                f"{plugins.who(owner)}: {HOOK}: logger {logger.name!r} is offered by "
                f"{loggers[logger.name][0].distribution} too; uninstall one of them"
            )
        loggers[logger.name] = found, logger
    return loggers


def _opened(text: str, loggers: dict[str, tuple[Found, Logger]]) -> tuple[Found, Observer]:
    found, logger, value = _logger(text, loggers)
    with blaming(found, HOOK, limited=False):
        observer = logger.open(value)
    return found, checked_observer(observer, who(found), HOOK)


def _logger(text: str, loggers: dict[str, tuple[Found, Logger]]) -> tuple[Found, Logger, str]:
    """The logger that `NAME=VALUE` names, its plugin and the value; UserError for an unknown one or no value."""
    name, _, value = text.partition("=")
    if name not in loggers:
        for extension, offered in project_packages()["loggers"].items():
            if name in offered and (package := published_package("extension", extension)) is not None:
                raise UserError(f"--log {name}: {package} has this logger; install it with: {install_own(package)}")
        raise unknown("--log", "logger", name, loggers)
    found, logger = loggers[name]
    if not value:
        raise UserError(f"--log: expected {name}={logger.value}, found {text!r}")
    return found, logger, value
