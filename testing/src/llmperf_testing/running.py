"""Running all checks of a plugin, one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from llmperf.errors import LlmperfError
from llmperf.hookspecs import OWNERS, Role

from llmperf_testing.check import Check, ContractError, Outcome, Skip, State
from llmperf_testing.subject import Subject


def checks_of(role: Role) -> tuple[Check, ...]:
    """The checks for plugins of a role, in their order; those that train come last."""
    from llmperf_testing.checks.additions import ADDITIONS, LAUNCHING, LOGGING, OBSERVING
    from llmperf_testing.checks.announced import ANNOUNCED
    from llmperf_testing.checks.environment import ENVIRONMENT
    from llmperf_testing.checks.hooks import HOOKS
    from llmperf_testing.checks.overlays import OVERLAYS

    quick: list[Callable[[Any], None]] = [*ANNOUNCED, *HOOKS, *OVERLAYS, *ADDITIONS]
    if role in OWNERS["llmperf_launchers"]:
        quick += LAUNCHING
    if role in OWNERS["llmperf_observers"]:
        quick += OBSERVING
    if role in OWNERS["llmperf_loggers"]:
        quick += LOGGING
    training: tuple[Callable[[Any], None], ...] = ()
    if role == "vendor":
        from llmperf_testing.checks.device import DEVICE
        from llmperf_testing.checks.peaks import PEAKS
        from llmperf_testing.checks.probe import PROBE
        from llmperf_testing.checks.readings import READING

        quick += [*PROBE, *PEAKS, *READING, *ENVIRONMENT, *DEVICE]
    if role == "framework":
        from llmperf_testing.checks.kernels import KERNELS
        from llmperf_testing.checks.losses import LOSSES
        from llmperf_testing.checks.planning import PLANNING
        from llmperf_testing.checks.scripts import SCRIPT_FAILURES, SCRIPT_LINES
        from llmperf_testing.checks.training import LEAVING, TRAINING
        from llmperf_testing.checks.watched import WATCHED

        quick += [*PLANNING, *SCRIPT_LINES, *ENVIRONMENT]
        training = (*TRAINING, *LOSSES, *WATCHED, *KERNELS, *LEAVING, *SCRIPT_FAILURES)
    return (*(Check(one) for one in quick), *(Check(one, slow=True) for one in training))


def subject_of(
    role: Role,
    name: str,
    vendor: str | None = None,
    settings: tuple[str, ...] = (),
    case: str | None = None,
    reference: str | None = None,
    seed: int | None = None,
) -> Subject:
    """The plugin to check; PluginError if there is none of that role and name. Only frameworks use the options."""
    if role == "vendor":
        from llmperf_testing.vendor import VendorSubject

        return VendorSubject(name)
    if role == "framework":
        from llmperf_testing.framework import FrameworkSubject

        return FrameworkSubject(name, vendor, settings, case, reference, seed)
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
    except (ContractError, LlmperfError) as error:
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
