"""Identity of a result or a plan: its case, its changes, its status, its model, its plugins and sections."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from llmperf.cases.model_facts import misfits
from llmperf.cases.resolve import changes_from, flat_case
from llmperf.errors import UserError
from llmperf.files.json_files import ByValue, builtins, convert
from llmperf.plugins.installed import version
from llmperf.plugins.own_packages import project_packages
from llmperf.results.sections import known_sections
from llmperf.types import Case, Change, Model, Result, RunSpec, Text, Violation
from llmperf.validation.plugin_data import installed_names, known_case
from llmperf.validation.reading import pointer, shown
from llmperf.validation.violations import rule, spec_of

if TYPE_CHECKING:
    from llmperf.types import Plan


_ABSENT = object()


@rule("LP601", "error", "A changed contract makes a variant")
def variant(result: Result) -> Iterator[Violation]:
    changed = [change.path for change in result.fix_hp if change.contract]
    if result.variant != bool(changed):
        because = (
            Text("fix_hp changes {}", changed[0][:60]) if changed else Text("fix_hp changes nothing of the contract")
        )
        message = Text("expected {} ({}), found {}", str(bool(changed)).lower(), because, str(result.variant).lower())
        yield "/variant", message


@rule("LP602", "error", "A run that is not complete says why, a complete one has no failure")
def failure_with_status(result: Result) -> Iterator[Violation]:
    if result.status == "complete" and result.failure is not None:
        yield "/failure", Text("expected null (status is complete), found reason {!r}", result.failure.reason)
    if result.status != "complete" and result.failure is None:
        yield "/failure", Text("expected a failure (status is {}), found null", result.status)


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


@rule("LP604", "error", "The contract names the model that was run")
def model_of_the_contract(result: Result) -> Iterator[Violation]:
    found, expected = result.model.name, result.contract.model
    if found != expected:
        yield "/model/name", Text("expected {} (contract.model), found {}", shown(expected), shown(found))


@rule("LP605", "warning", "A measured result does not come from a stand-in")
def not_simulated(result: Result) -> Iterator[Violation]:
    if result.hardware.simulated:
        yield "/hardware/simulated", Text("expected false for a measured result, found true")


@rule("LP606", "error", "Every change to a known case's contract is listed in fix_hp", "result", "plan")
def changes_are_complete(document: Result | Plan) -> Iterator[Violation]:
    spec, path = _spec(document)
    if (case := known_case(spec.case)) is None:
        return
    recorded = {change.path for change in spec.changes}
    for change in _departures(case, spec):
        if change.contract and change.path not in recorded:
            yield path, _absent(change, case)


@rule("LP640", "error", "fix_hp is what differs from a known case, no more and no less", "result", "plan")
def changes_are_departures(document: Result | Plan) -> Iterator[Violation]:
    spec, path = _spec(document)
    if (case := known_case(spec.case)) is None:
        return
    departures = {change.path: change for change in _departures(case, spec)}
    seen: set[str] = set()
    for index, change in enumerate(spec.changes):
        departure, name = departures.get(change.path), shown(change.path)
        if change.path in seen:
            yield f"{path}/{index}/path", Text("expected one entry for each path, found {} again", name)
        elif departure is None:
            message = Text("expected what differs from case {}, found {}, which does not", case.name, name)
            yield f"{path}/{index}/path", message
        elif change.case_value != departure.case_value:
            expected = Text("{} ({} in case {})", shown(departure.case_value), name, case.name)
            yield f"{path}/{index}/case_value", Text("expected {}, found {}", expected, shown(change.case_value))
        seen.add(change.path)
    for name, departure in departures.items():
        if name not in seen and not departure.contract:  # LP606 reports those of the contract
            yield path, _absent(departure, case)


_known_departures = ByValue[tuple[Change, ...]]()


def _departures(case: Case, spec: RunSpec) -> tuple[Change, ...]:
    leaves = _leaves(case.name)
    values = (leaves, spec.contract, spec.tuning, spec.framework, spec.challenge)
    return _known_departures.get(values, lambda: changes_from(leaves, spec, {}))


@cache
def _leaves(name: str) -> dict[str, Any]:
    case = known_case(name)
    assert case is not None
    return flat_case(case)


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


@rule("LP610", "error", "The facts of a model fit together", "result", "plan", "model")
def facts_fit_together(document: Result | Plan | Model) -> Iterator[Violation]:
    if isinstance(document, Model):
        model, path = document, ""
    else:
        spec, above = spec_of(document)
        model, path = spec.model, f"{above}/model"
    for key, expected, found in misfits(model):
        yield f"{path}/{key.replace('.', '/')}", Text("expected {}, found {}", expected, shown(found))


@rule("LP905", "note", "The plugins of a run are installed", "result", "plan")
def plugins_are_installed(document: Result | Plan) -> Iterator[Violation]:
    for index, plugin in enumerate(document.plugins):
        if plugin.role in ("vendor", "framework") and plugin.name not in installed_names(plugin.role):
            name = f"{shown(plugin.name)} ({shown(plugin.distribution)})"
            expected = Text("expected {} {} to be installed", plugin.role, name)
            yield f"/plugins/{index}", Text("{}, found that it is not; its rules were not applied", expected)
    ran = [plugin.distribution for plugin in document.plugins if plugin.role == "extension"]
    for name in document.sections.keys() - known_sections().by_name.keys() if isinstance(document, Result) else ():
        packages = project_packages()["sections"].get(name, ran)  # of others, those that were in the run
        absent = dict.fromkeys(shown(package) for package in packages if version(package) is None)
        expected = Text("expected {} to be installed", " or ".join(list(absent)[:3]) or "its package")
        yield pointer(["sections", name[:200]]), Text("{}, found that it is not; the section is kept", expected)


@rule("LP016", "error", "The figures of a section are those that its package defines")
def sections_fit(result: Result) -> Iterator[Violation]:
    known = known_sections().by_name
    for name, figures in result.sections.items():
        if name in known:
            try:
                convert(figures, known[name].section.figures, "figures")
            except UserError as error:
                package = shown(known[name].owner.distribution)
                found = Text("found others: {}", shown(str(error)))
                yield pointer(["sections", name]), Text("expected figures as {} defines them, {}", package, found)
