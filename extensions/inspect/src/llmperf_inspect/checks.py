"""Checks of this machine: what each plugin lacks, and the command that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from llmperf import install_own, packaged_commands, pip_command
from llmperf import planning as installation
from llmperf.errors import PluginError, PluginImportError, UserError

from llmperf_inspect.used_names import missing_name


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
    found = installation.discover()
    installed = {(one.role, one.name) for one in found}
    looked = [diagnosis for one in found for diagnosis in _plugin(one)]
    looked += dict.fromkeys(diagnosis for one in found for diagnosis in _host_checks(one))
    for (role, name), package in installation.published().items():
        if (role, name) not in installed:
            looked.append(Diagnosis(f"{role} {name}", "missing", "not installed", install_own(package)))
    for command in packaged_commands().values():
        if problem := command.problem():  # the core or another package has a command of this name
            packages = " and ".join(command.distributions)
            looked.append(Diagnosis(f"command {command.name} of {packages}", "broken", problem))
    return looked


def _plugin(found: installation.Found) -> Iterator[Diagnosis]:
    subject = f"{found.role} {found.name}"
    unmet = installation.unmet_requirements(found.distribution)
    if unmet:  # it may fail to load for this reason
        message = f"{found.distribution} needs {', '.join(map(str, unmet))}"
        yield Diagnosis(subject, "broken", message, installation.install(unmet))
        return
    try:
        installation.find(found.role, found.name)
        plugins = installation.Plugins([found])
        installation.check_readable(plugins)
        taken = [*filter(None, [missing_name(found)])]
        for hook, what in (("llmperf_launchers", "launcher"), ("llmperf_reporters", "reporter")):
            core = {"local"} if what == "launcher" else set()
            for owner, item in plugins.collect_items(hook):
                with installation.blaming(plugins.found(owner), hook):
                    name = getattr(item, "name", None)
                if plugins.found(owner) != found:
                    core.add(str(name))
                elif name in core:
                    taken.append(f"{what} {name!r}: llmperf-core has a {what} of this name")
    except UserError as error:
        message, origin = str(error), installation.source(found.distribution)
        if origin is not None and origin.gone and origin.editable:
            again = pip_command("install", "-e", "FOLDER")
            message += f"; its folder {origin.given} is gone; install it again from where it is now: {again}"
        # a new installation does not mend a mistake in the source
        mend = reinstall(found.distribution) if isinstance(error, PluginImportError) else None
        rivals = [
            one.distribution for one in installation.discover() if (one.role, one.name) == (found.role, found.name)
        ]
        # a file of the user's own is no package
        removed = [pip_command("uninstall", name) for name in rivals if not name.endswith(".py")]
        yield Diagnosis(subject, "broken", message, "  # or: ".join(removed) if len(rivals) > 1 else mend)
        return
    for line in taken:
        yield Diagnosis(subject, "broken", line)
    if found.role == "vendor":
        try:
            probe = installation.asked(found, plugins)
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
        for problem in installation.catalogue_problems(found, plugins):
            yield Diagnosis(f"{subject}, catalogue", "missing", problem)
    else:
        yield Diagnosis(subject, "ok", f"{found.distribution} {found.version}")


def _host_checks(found: installation.Found) -> Iterator[Diagnosis]:
    """Problems that a plugin's own checks of the host find; nothing for a plugin that cannot be loaded."""
    try:
        plugins = installation.Plugins([installation.find(found.role, found.name)])
    except UserError:  # `_plugin` has reported it
        return
    try:
        for check in installation.joined_facts(plugins).host_checks:
            with installation.blaming(found, f"host check {check.subject!r}"):
                problem = check.problem()
            if problem:
                yield Diagnosis(check.subject, "missing", problem, check.mend)
    except PluginError as error:
        yield Diagnosis(f"{found.role} {found.name}", "broken", str(error))


def reinstall(distribution: str) -> str | None:
    """The command that installs a distribution again from its source; None if the source no longer exists."""
    if installation.is_own(distribution):
        return install_own(distribution)
    if distribution.endswith(".py"):  # a file in the user's folder of plugins
        return None
    origin = installation.source(distribution)
    if origin is None:
        return pip_command("install", "--upgrade", "--reinstall", distribution)
    return None if origin.gone else installation.reinstall_command(origin)
