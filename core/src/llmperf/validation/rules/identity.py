"""Identity of a result: variant, status, model, and packages that are installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf.plugins.installed import version
from llmperf.plugins.own_packages import project_packages
from llmperf.results.sections import known_sections
from llmperf.types import Result, Text, Violation
from llmperf.validation.plugin_data import installed_names
from llmperf.validation.reading import pointer, shown
from llmperf.validation.violations import rule

if TYPE_CHECKING:
    from llmperf.types import Plan


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


@rule("LP605", "warning", "A measured result does not come from a stand-in")
def not_simulated(result: Result) -> Iterator[Violation]:
    if result.hardware.simulated:
        yield "/hardware/simulated", Text("expected false for a measured result, found true")


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
