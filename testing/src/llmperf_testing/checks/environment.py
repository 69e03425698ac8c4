"""The variables that a plugin sets for the ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmperf.errors import PluginError
from llmperf.hookspecs import Role
from llmperf.launching.agent import rank_environment
from llmperf.planning.ready import worker_env
from llmperf.plugins.discovery import find, names
from llmperf.plugins.faults import who
from llmperf.plugins.loading import Plugins
from llmperf.types import Plan

from llmperf_testing.check import ContractError, Skip, check, require
from llmperf_testing.checks.announced import is_loaded
from llmperf_testing.checks.probe import probe_has_its_shape
from llmperf_testing.subject import Subject

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _variables(subject: Any) -> Any:
    """Variables that it sets; Skip if it sets none."""
    subject.rests_on(is_loaded, *((probe_has_its_shape,) if subject.role == "vendor" else ()))
    for _, given in subject.plugins.collect("llmperf_worker_env", plan=_plan(subject)):
        return given
    raise Skip("it does not answer llmperf_worker_env")


def _plan(subject: Any) -> Plan:
    """The plan; Skip where its role's own checks fail."""
    try:
        plan: Plan = subject.plan()
    except ContractError:
        raise Skip("there is no plan to set variables for") from None
    return plan


@check()
def environment_is_text(subject: Any) -> None:
    """The variables that it sets have names and values that an environment can hold."""
    try:
        given = _variables(subject)
    except Skip:
        if subject.plugins.answers("llmperf_worker_env"):
            raise
        return
    if not isinstance(given, Mapping):
        raise ContractError(f"llmperf_worker_env gave {type(given).__name__}; expected a mapping of names to text")
    for name, value in given.items():
        require(isinstance(name, str) and NAME.fullmatch(name), f"variable {name!r}: expected letters, digits and _")
        require(isinstance(value, str) and "\0" not in value, f"variable {name}: expected text, found {value!r}")


@check(environment_is_text)
def environment_leaves_the_ranks_own_alone(subject: Any) -> None:
    """It sets none of the variables that tell a rank which it is: those are the agent's."""
    given = _variables(subject)
    plan = subject.plan()
    plan = replace(plan, env={}, worker=replace(plan.worker, rank_env={}))
    ours = rank_environment(Path("run"), plan, 0, 0, "localhost", 1)
    taken = sorted(set(given) & set(ours))
    require(not taken, f"it sets {', '.join(taken)}, which the agent sets for each rank")


@check(environment_is_text)
def environment_repeats(subject: Any) -> None:
    """Asked again for the same plan, it sets the same."""
    first, second = dict(_variables(subject)), dict(_variables(subject))
    require(first == second, f"first {first}, then {second}"[:500])


@check(environment_is_text)
def environment_agrees_with_others(subject: Subject) -> None:
    """No installed plugin that it may run with sets one of its variables otherwise."""
    plan = _plan(subject)
    others: Role = "framework" if subject.role == "vendor" else "vendor"
    for name in names(others):
        try:
            other = find(others, name)
            pair = Plugins([subject.found, other])
        except PluginError:  # then the other is broken
            continue
        try:
            worker_env(plan, pair)
        except PluginError as error:
            if not str(error).startswith(who(other)):  # the other's, which may not be made for this plan
                raise
