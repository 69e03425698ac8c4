"""Checks of this machine: what each plugin lacks, and the command that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from llmperf.cases.overlays import check_readable
from llmperf.errors import PluginError, PluginImportError, UserError
from llmperf.planning.vendors import asked
from llmperf.plugins.discovery import Found, discover, find
from llmperf.plugins.facts import catalogue_problems, joined_facts
from llmperf.plugins.faults import blaming
from llmperf.plugins.hook_names import missing_name
from llmperf.plugins.loading import Plugins
from llmperf.plugins.mending import install, install_own, moved, reinstall, uninstall
from llmperf.plugins.own_packages import published
from llmperf.plugins.packaged_commands import packaged_commands
from llmperf.plugins.requirements import unmet_requirements


@dataclass(frozen=True)
class Diagnosis:
    """The outcome of one check."""

    subject: str
    state: Literal["ok", "missing", "broken"]
    message: str
    mend: str | None = None
    """The command that mends it."""


def examine() -> list[Diagnosis]:
    """Checks of every installed plugin, of the project's plugins that are not installed, and of the host."""
    found = discover()
    installed = {(one.role, one.name) for one in found}
    looked = [diagnosis for one in found for diagnosis in _plugin(one)]
    looked += dict.fromkeys(diagnosis for one in found for diagnosis in _host_checks(one))
    for (role, name), package in published().items():
        if (role, name) not in installed:
            looked.append(Diagnosis(f"{role} {name}", "missing", "not installed", install_own(package)))
    for command in packaged_commands().values():
        if problem := command.problem():  # the core or another package has a command of this name
            packages = " and ".join(command.distributions)
            looked.append(Diagnosis(f"command {command.name} of {packages}", "broken", problem))
    return looked


def _plugin(found: Found) -> Iterator[Diagnosis]:
    subject = f"{found.role} {found.name}"
    unmet = unmet_requirements(found.distribution)
    if unmet:  # it may fail to load for this reason
        message = f"{found.distribution} needs {', '.join(map(str, unmet))}"
        yield Diagnosis(subject, "broken", message, install(unmet))
        return
    try:
        find(found.role, found.name)
        plugins = Plugins([found])
        check_readable(plugins)
        taken = [*filter(None, [missing_name(found)])]
        for hook, what in (("llmperf_launchers", "launcher"), ("llmperf_reporters", "reporter")):
            core: set[str] = set()
            for owner, item in plugins.collect_items(hook):
                with blaming(plugins.found(owner), hook):
                    name = getattr(item, "name", None)
                if plugins.found(owner) != found:
                    core.add(str(name))
                elif name in core:
                    taken.append(f"{what} {name!r}: llmperf-core has a {what} of this name")
    except UserError as error:
        gone = moved(found)
        message = f"{error}; {gone}" if gone else str(error)
        # a new installation does not mend a mistake in the source
        mend = reinstall(found.distribution) if isinstance(error, PluginImportError) else None
        rivals = [one.distribution for one in discover() if (one.role, one.name) == (found.role, found.name)]
        packages = [name for name in rivals if not name.endswith(".py")]  # a file of the user's own is no package
        yield Diagnosis(subject, "broken", message, uninstall(*packages) if len(rivals) > 1 else mend)
        return
    for line in taken:
        yield Diagnosis(subject, "broken", line)
    if found.role == "vendor":
        try:
            probe = asked(found, plugins)
        except UserError as error:
            yield Diagnosis(subject, "broken", str(error))
            return
        if probe.devices:
            yield Diagnosis(subject, "ok", f"{len(probe.devices)} x {probe.devices[0].model}")
        elif not probe.problems:
            yield Diagnosis(subject, "missing", "sees no device")
        for runtime, reason in probe.offers.runtime_problems.items() if probe.devices else ():
            yield Diagnosis(f"{subject}, {runtime}", "missing", reason)
        for problem in probe.problems:
            yield Diagnosis(subject, "missing", problem)
        for problem in catalogue_problems(found, plugins):
            yield Diagnosis(f"{subject}, catalogue", "missing", problem)
    else:
        yield Diagnosis(subject, "ok", f"{found.distribution} {found.version}")


def _host_checks(found: Found) -> Iterator[Diagnosis]:
    """Problems that a plugin's own checks of the host find; nothing for a plugin that cannot be loaded."""
    try:
        plugins = Plugins([find(found.role, found.name)])
    except UserError:  # `_plugin` has reported it
        return
    try:
        for check in joined_facts(plugins).host_checks:
            with blaming(found, f"host check {check.subject!r}"):
                problem = check.problem()
            if problem:
                yield Diagnosis(check.subject, "missing", problem, check.mend)
    except PluginError as error:
        yield Diagnosis(f"{found.role} {found.name}", "broken", str(error))
