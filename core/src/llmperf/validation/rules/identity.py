"""What a result says it is: its case, its changes, its status, its models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmperf.files.json_files import builtins
from llmperf.types import Plan, Result
from llmperf.validation.catalogue import Violation, rule
from llmperf.validation.reading import shown

_ABSENT = object()


@rule("LP601", "error", "A changed contract makes a variant")
def variant(result: Result) -> Iterator[Violation]:
    """`variant` is true if and only if `fix_hp` has a change to the contract."""
    changed = [change.path for change in result.fix_hp if change.contract]
    if result.variant != bool(changed):
        because = f"fix_hp changes {changed[0][:60]}" if changed else "fix_hp changes nothing of the contract"
        yield "/variant", f"expected {str(bool(changed)).lower()} ({because}), found {str(result.variant).lower()}"


@rule("LP602", "error", "A run that is not complete says why, a complete one has no failure")
def failure_with_status(result: Result) -> Iterator[Violation]:
    """Status and failure agree."""
    if result.status == "complete" and result.failure is not None:
        yield "/failure", f"expected null (status is complete), found reason {result.failure.reason!r}"
    if result.status != "complete" and result.failure is None:
        yield "/failure", f"expected a failure (status is {result.status}), found null"


@rule("LP603", "error", "What fix_hp says was run, was run", "result", "plan")
def changes_took_effect(document: Result | Plan) -> Iterator[Violation]:
    """Each change gives the value that stands in contract, tuning or the framework's options."""
    changes = document.spec.changes if isinstance(document, Plan) else document.fix_hp
    path = "/spec/changes" if isinstance(document, Plan) else "/fix_hp"
    spec = document.spec if isinstance(document, Plan) else document
    tables = builtins({"contract": spec.contract, "tuning": spec.tuning, "framework": spec.framework})
    for index, change in enumerate(changes):
        actual = _value_at(tables, change.path)
        name = shown(change.path)
        if actual is _ABSENT and change.value is not None:
            yield f"{path}/{index}/path", f"expected a path of contract, tuning or framework, found {name}"
        elif actual is not _ABSENT and _flat(actual) != change.value:
            message = f"expected {shown(_flat(actual))} ({name}), found {shown(change.value)}"
            yield f"{path}/{index}/value", message


def _value_at(tables: Any, path: str) -> Any:
    first, _, rest = path.partition(".")
    if first == "framework":
        return tables[first].get(rest, _ABSENT)
    value = tables
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            return _ABSENT
        value = value[part]
    return value


def _flat(value: Any) -> Any:
    """Several values stand as one text in a change."""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


@rule("LP604", "error", "The contract names the model that was run")
def model_of_the_contract(result: Result) -> Iterator[Violation]:
    """The model's facts are under the name that the contract asks for."""
    found, expected = result.model.name, result.contract.model
    if found != expected:
        yield "/model/name", f"expected {shown(expected)} (contract.model), found {shown(found)}"


@rule("LP605", "warning", "A measured result does not come from a stand-in")
def not_simulated(result: Result) -> Iterator[Violation]:
    """Figures of simulated devices say nothing of the real ones."""
    if result.hardware.simulated:
        yield "/hardware/simulated", "expected false for a measured result, found true"
