"""What was run against what was asked for: fix_hp, the installed case, layout and batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from llmperf import builtins
from llmperf.accounting import DEGREES, sharding_degree_of
from llmperf.types import Case, Change, Result, RunSpec, Text, Violation
from llmperf.validation import departures, differs, known_case, rule, shown, spec_of

if TYPE_CHECKING:
    from llmperf.types import Plan

_ABSENT = object()


@rule("LP603", "error", "What fix_hp says was run, was run", "result", "plan")
def changes_took_effect(document: Result | Plan) -> Iterator[Violation]:
    spec, path = _spec(document)
    tables: Any = builtins({"contract": spec.contract, "tuning": spec.tuning, "framework": spec.framework})
    for index, change in enumerate(spec.changes):
        first, _, option = change.path.partition(".")
        actual, name = tables, shown(change.path)
        for part in (first, option) if first == "framework" else change.path.split("."):
            actual = actual.get(part, _ABSENT) if isinstance(actual, dict) else _ABSENT
        if actual is _ABSENT and change.value is not None:
            yield f"{path}/{index}/path", Text("expected a path of contract, tuning or framework, found {}", name)
        elif actual is not _ABSENT and _flat(actual) != change.value:
            message = Text("expected {} ({}), found {}", shown(_flat(actual)), name, shown(change.value))
            yield f"{path}/{index}/value", message


def _flat(value: Any) -> Any:
    """A value as changes record it: several values are one text."""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


@rule("LP606", "error", "Every change to a known case's contract is listed in fix_hp", "result", "plan")
def changes_are_complete(document: Result | Plan) -> Iterator[Violation]:
    spec, path = _spec(document)
    if (case := known_case(spec.case)) is None:
        return
    recorded = {change.path for change in spec.changes}
    for change in departures(case, spec):
        if change.contract and change.path not in recorded:
            yield path, _absent(change, case)


@rule("LP640", "error", "fix_hp is what differs from a known case, no more and no less", "result", "plan")
def changes_are_departures(document: Result | Plan) -> Iterator[Violation]:
    spec, path = _spec(document)
    if (case := known_case(spec.case)) is None:
        return
    expected_changes = {change.path: change for change in departures(case, spec)}
    seen: set[str] = set()
    for index, change in enumerate(spec.changes):
        departure, name = expected_changes.get(change.path), shown(change.path)
        if change.path in seen:
            yield f"{path}/{index}/path", Text("expected one entry for each path, found {} again", name)
        elif departure is None:
            message = Text("expected what differs from case {}, found {}, which does not", case.name, name)
            yield f"{path}/{index}/path", message
        elif change.case_value != departure.case_value:
            expected = Text("{} ({} in case {})", shown(departure.case_value), name, case.name)
            yield f"{path}/{index}/case_value", Text("expected {}, found {}", expected, shown(change.case_value))
        seen.add(change.path)
    for name, departure in expected_changes.items():
        if name not in seen and not departure.contract:  # LP606 reports those of the contract
            yield path, _absent(departure, case)


def _absent(change: Change, case: Case) -> str:
    was, now = shown(change.case_value), shown(change.value)
    name = change.path if change.contract else shown(change.path)  # an option's name is anybody's
    return Text("expected an entry for {} ({} in case {}, {} here), found none", name, was, case.name, now)


@rule("LP641", "note", "The case is installed", "result", "plan")
def case_is_known(document: Result | Plan) -> Iterator[Violation]:
    if known_case(name := _spec(document)[0].case) is None:
        expected = Text("expected a case of llmperf or of an installed plugin")
        yield f"{spec_of(document)[1]}/case", Text("{}, found {}; its changes were not checked", expected, shown(name))


def _spec(document: Result | Plan) -> tuple[RunSpec, str]:
    """The spec, and the JSON pointer of its changes."""
    if not isinstance(document, Result):
        return document.spec, "/spec/changes"
    names = ("case", "title", "contract", "tuning", "model", "framework", "challenge")
    return RunSpec(**{name: getattr(document, name) for name in names}, changes=document.fix_hp), "/fix_hp"


@rule("LP104", "error", "Layout and batch are those that were asked for", "result", "plan")
def as_asked(document: Result | Plan) -> Iterator[Violation]:
    if isinstance(document, Result):
        path, layout = "/parallelism", document.parallelism
    else:
        path, layout = "/worker/layout", document.layout
    spec, _ = spec_of(document)
    contract, tuning = spec.contract, spec.tuning
    same = (*DEGREES, "sequence_parallel", "sharding_stage")
    asked = {
        "nodes": tuning.nodes,
        "devices_per_node": tuning.devices,
        **{name: getattr(tuning, name) for name in same},
    }
    asked["sharding_degree"] = sharding_degree_of(tuning)
    for name, expected in asked.items():
        yield from differs(f"{path}/{name}", getattr(layout, name), expected, Text("as in tuning"))
    batch = document.batch
    yield from differs("/batch/global_batch", batch.global_batch, contract.global_batch, Text("as in contract"))
    yield from differs("/batch/seq_len", batch.seq_len, contract.seq_len, Text("as in contract"))
    yield from differs("/batch/micro_batch", batch.micro_batch, tuning.micro_batch, Text("as in tuning"))
    yield from differs("/batch/data_parallel", batch.data_parallel, layout.data_parallel, Text("as in the layout"))
    if tuning.gradient_accumulation is not None:
        path, found = "/batch/gradient_accumulation", batch.gradient_accumulation
        yield from differs(path, found, tuning.gradient_accumulation, Text("as in tuning"))


@rule("LP604", "error", "The contract names the model that was run")
def model_of_the_contract(result: Result) -> Iterator[Violation]:
    found, expected = result.model.name, result.contract.model
    if found != expected:
        yield "/model/name", Text("expected {} (contract.model), found {}", shown(expected), shown(found))
