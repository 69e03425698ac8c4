"""A result against the cases and models that the core ships under the same names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache

from llmperf.cases.library import Library, library
from llmperf.cases.resolve import changes
from llmperf.types import Case, Model, Plan, Result, RunSpec
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
    spec, path = (document.spec, "/spec/changes") if isinstance(document, Plan) else (_spec(document), "/fix_hp")
    case = shipped_case(spec.case)
    if case is None:
        return
    recorded = {change.path for change in spec.changes}
    for change in changes(case, spec, {}):
        if change.contract and change.path not in recorded:
            was, now = shown(change.case_value), shown(change.value)
            yield path, f"expected an entry for {change.path} ({was} in case {case.name}, {now} here), found none"


def _spec(result: Result) -> RunSpec:
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
