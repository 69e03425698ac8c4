"""Running all checks of a plugin, one after another."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from llmperf.hookspecs import OWNERS, Role

from llmperf_testing.check import CHECKS, TRAINING, Check, ContractError, Outcome, Skip, State
from llmperf_testing.subject import Subject

QUICK = {"vendor": ("probe", "readings", "environment", "device"), "framework": ("planning", "environment")}
"""Modules with the checks of a role, besides those of every plugin."""


def checks_of(role: Role) -> tuple[Check, ...]:
    """The checks for plugins of a role, in their order; those that train come last."""
    modules = ("announced", "additions", *QUICK.get(role, ()), *(TRAINING if role == "framework" else ()))
    for module in modules:
        import_module(f"llmperf_testing.checks.{module}")
    every = (one for module in modules for one in CHECKS[module])
    return tuple(one for one in every if one.hook is None or role in OWNERS[one.hook])


def subject_of(role: Role, name: str, **options: Any) -> Subject:
    """The plugin to check; PluginError if there is none of that role and name. `options` are of `FrameworkSubject`."""
    if role == "vendor":
        from llmperf_testing.vendor import VendorSubject

        return VendorSubject(name)
    if role == "framework":
        from llmperf_testing.framework import FrameworkSubject

        return FrameworkSubject(name, **options)
    return Subject(role, name)


def outcomes(subject: Subject, *, fast: bool = False) -> Iterator[Outcome]:
    """The outcome of each check, as soon as it is known; checks that train are left out if `fast`."""
    for check in checks_of(subject.role):
        if not (fast and check.slow):
            yield outcome(subject, check)


def outcome(subject: Subject, check: Check) -> Outcome:
    """The outcome of one check; any other exception fails it too."""
    began = time.monotonic()
    state: State = "failed"
    message = ""
    try:
        subject.run(check.function)
        state = "passed"
    except Skip as reason:
        state, message = "skipped", str(reason)
    except ContractError as error:
        message = str(error)
    except Exception as error:
        message = f"raised {type(error).__name__}: {error}"
    return Outcome(
        role=subject.role,
        check=check.name,
        meaning=check.meaning,
        state=state,
        message=" ".join(message.split()),
        seconds=time.monotonic() - began,
    )
