"""Checks of the hooks that a plugin answers, and of their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from llmperf import hookspecs
from llmperf.cases.overlays import check_readable
from llmperf.errors import LlmperfError, PluginError, unknown
from llmperf.hookspecs import OWNERS, PROJECT
from llmperf.plugins.loading import Plugins

from llmperf_testing.check import ContractError, require
from llmperf_testing.checks.announced import can_be_imported
from llmperf_testing.subject import Subject

MUST = {
    "vendor": (("llmperf_probe",), ("llmperf_setup_device",)),
    "framework": (("llmperf_plan_workers",), ("llmperf_build_trainer", "llmperf_parse_log")),
}
"""Hooks that a role has to answer: one of each group."""


def functions(subject: Subject) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The module's functions whose names begin as hooks do."""
    subject.rests_on(can_be_imported)
    for name, value in vars(subject.module).items():
        if name.startswith(f"{PROJECT}_") and inspect.isroutine(value):
            yield name, value


def marked(function: object) -> bool:
    """Check whether it is marked with `@hookimpl`."""
    return getattr(function, f"{PROJECT}_impl", None) is not None


def hooks_are_spelled_right(subject: Subject) -> None:
    """Each function whose name begins with `llmperf_` has the name of a hook, or is marked `optionalhook=True`."""
    for name, function in functions(subject):
        optional = getattr(function, f"{PROJECT}_impl", None) or {}
        if name not in OWNERS and not optional.get("optionalhook"):
            raise ContractError(str(unknown(subject.found.module, "hook", name, OWNERS)))


def hooks_are_marked(subject: Subject) -> None:
    """Each function with the name of a hook is marked with `@llmperf.hookimpl`; others are never called."""
    for name, function in functions(subject):
        require(name not in OWNERS or marked(function), f"{name} is not marked with @llmperf.hookimpl")


def hooks_take_their_arguments(subject: Subject) -> None:
    """Each hook takes arguments of its specification, by name and without defaults."""
    for name, function in functions(subject):
        if name not in OWNERS or not marked(function):
            continue
        specified = list(inspect.signature(getattr(hookspecs, name)).parameters)
        for parameter in inspect.signature(function).parameters.values():
            where = f"{name}({', '.join(specified)}): {parameter}"
            require(parameter.name in specified, f"{where}: no such argument")
            require(parameter.kind is parameter.POSITIONAL_OR_KEYWORD, f"{where}: expected a plain argument")
            require(parameter.default is parameter.empty, f"{where}: arguments with a default are never given")


def answers_for_its_role_only(subject: Subject) -> None:
    """It answers hooks of its own role and nobody's FLOP count."""
    for name, function in functions(subject):
        owners = OWNERS.get(name, (subject.role,))
        allowed = subject.role in owners or not marked(function)
        require(allowed, f"a {subject.role} may not answer {name}; {' or '.join(owners)} may")


def answers_what_its_role_must(subject: Subject) -> None:
    """It answers the hooks that a run cannot do without."""
    subject.rests_on(hooks_are_spelled_right, hooks_are_marked)
    here = {name for name, _ in functions(subject)}
    for group in MUST.get(subject.role, ()):
        require(here & set(group), f"a {subject.role} must answer {' or '.join(group)}")


def is_loaded(subject: Subject) -> None:
    """llmperf loads it beside its own answers."""
    rules = (hooks_are_spelled_right, hooks_are_marked, hooks_take_their_arguments, answers_for_its_role_only)
    subject.rests_on(*rules)
    try:
        Plugins([subject.found])
    except PluginError as error:
        raise ContractError(str(error)) from None


def resources_can_be_read(subject: Subject) -> None:
    """Every model, case and tuning overlay that it ships can be read."""
    subject.rests_on(is_loaded)
    try:
        for _, given in subject.plugins.collect_items("llmperf_resources"):
            require(Path(given).is_dir(), f"llmperf_resources names {given}, which is no folder")
        check_readable(subject.plugins)
    except LlmperfError as error:
        raise ContractError(str(error)) from None


HOOKS = (
    hooks_are_spelled_right,
    hooks_are_marked,
    hooks_take_their_arguments,
    answers_for_its_role_only,
    answers_what_its_role_must,
    is_loaded,
    resources_can_be_read,
)
