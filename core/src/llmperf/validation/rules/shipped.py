"""A result against the cases and models that the core ships under the same names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

from llmperf.cases.library import Library, library
from llmperf.cases.resolve import changes_from, flat_case
from llmperf.types import Case, Change, Model, Plan, Result, RunSpec
from llmperf.validation.catalogue import Violation, rule
from llmperf.validation.reading import shown

DESCRIPTIVE = ("title", "source")
"""Fields of a model that fix neither parameters nor FLOPs."""


@cache
def _library() -> Library:
    return library()


@cache
def shipped_case(name: str) -> Case | None:
    """The core's case of that name; None if it has none."""
    return _library().case(name) if name in _library().paths("cases") else None


@cache
def shipped_model(name: str) -> Model | None:
    """The core's model of that name; None if it has none."""
    return _library().model(name) if name in _library().paths("models") else None


@rule("LP606", "error", "Every change to a known case's contract stands in fix_hp", "result", "plan")
def changes_are_complete(document: Result | Plan) -> Iterator[Violation]:
    """What differs from the contract of the case that the core ships under that name is recorded."""
    spec, path = _spec(document)
    if (case := shipped_case(spec.case)) is None:
        return
    recorded = {change.path for change in spec.changes}
    for change in _departures(case, spec):
        if change.contract and change.path not in recorded:
            yield path, _absent(change, case)


@rule("LP640", "error", "fix_hp is what differs from a known case, no more and no less", "result", "plan")
def changes_are_departures(document: Result | Plan) -> Iterator[Violation]:
    """Computed anew as planning does: tuning and framework options too, each once, with what the case says."""
    spec, path = _spec(document)
    if (case := shipped_case(spec.case)) is None:
        return
    departures = {change.path: change for change in _departures(case, spec)}
    seen: set[str] = set()
    for index, change in enumerate(spec.changes):
        departure, name = departures.get(change.path), shown(change.path)
        if change.path in seen:
            yield f"{path}/{index}/path", f"expected one entry for each path, found {name} again"
        elif departure is None:
            yield f"{path}/{index}/path", f"expected what differs from case {case.name}, found {name}, which does not"
        elif change.case_value != departure.case_value:
            expected = f"{shown(departure.case_value)} ({name} in case {case.name})"
            yield f"{path}/{index}/case_value", f"expected {expected}, found {shown(change.case_value)}"
        seen.add(change.path)
    for name, departure in departures.items():
        if name not in seen and not departure.contract:  # of the contract, LP606 tells
            yield path, _absent(departure, case)


def _departures(case: Case, spec: RunSpec) -> tuple[Change, ...]:
    return changes_from(_leaves(case.name), spec, {})


@cache
def _leaves(name: str) -> dict[str, Any]:
    return flat_case(_library().case(name))


def _absent(change: Change, case: Case) -> str:
    was, now = shown(change.case_value), shown(change.value)
    name = change.path if change.contract else shown(change.path)  # an option's name is anybody's
    return f"expected an entry for {name} ({was} in case {case.name}, {now} here), found none"


@rule("LP641", "note", "The case is one that llmperf ships", "result", "plan")
def case_is_known(document: Result | Plan) -> Iterator[Violation]:
    """Without the case, nobody can tell what was changed of it."""
    if shipped_case(name := _spec(document)[0].case) is None:
        path = "/spec/case" if isinstance(document, Plan) else "/case"
        yield path, f"expected a case that llmperf ships, found {shown(name)}; its changes were not checked"


def _spec(document: Result | Plan) -> tuple[RunSpec, str]:
    """What was asked for, and where its changes stand."""
    return (document.spec, "/spec/changes") if isinstance(document, Plan) else (_spec_of(document), "/fix_hp")


def _spec_of(result: Result) -> RunSpec:
    return RunSpec(
        case=result.case,
        title=result.title,
        contract=result.contract,
        tuning=result.tuning,
        model=result.model,
        framework=result.framework,
        changes=result.fix_hp,
    )


@rule("LP607", "error", "A known model has its published facts", "result", "plan")
def facts_are_published(document: Result | Plan) -> Iterator[Violation]:
    """A model that the core ships has these facts wherever it is run."""
    spec, path = (document.spec, "/spec/model") if isinstance(document, Plan) else (document, "/model")
    model = spec.model
    known = shipped_model(model.name)
    if known is None:
        return
    for one in fields(Model):
        found, expected = getattr(model, one.name), getattr(known, one.name)
        if found != expected and one.name not in DESCRIPTIVE:
            yield f"{path}/{one.name}", f"expected {shown(expected)} (model {known.name}), found {shown(found)}"
