"""The machine that a run is planned for: this machine's devices, or a model from a vendor's catalogue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from llmperf.errors import LlmperfError, PluginError, UserError
from llmperf.plugins.discovery import Found, find, names
from llmperf.plugins.facts import catalogue
from llmperf.plugins.faults import report_if_slow, who
from llmperf.plugins.loading import Plugins
from llmperf.plugins.mending import install_own
from llmperf.plugins.own_packages import of_this_project, published, vendors_with_catalogues
from llmperf.types.devices import Probe, device_names, normalised
from llmperf.types.launching import Interpreter, Node

if TYPE_CHECKING:
    from llmperf.types.remote import EnvironmentReport, OpenLauncher


@dataclass(frozen=True)
class Machine:
    """The devices to plan for; all nodes are alike."""

    vendor: str
    probe: Probe
    nodes: int
    here: bool
    """False for a machine named with `--on`, on which nothing can be started."""
    left_out: tuple[str, ...] = ()
    """One line for each vendor plugin that failed, so that its devices were not considered."""

    node_list: tuple[Node, ...] = ()
    """The nodes that the launcher reaches, in the order of their ranks; empty for a machine named with `--on`."""
    reports: tuple[EnvironmentReport, ...] = ()
    """The report of the workers' environment on each node; empty if the ranks run in this process's."""
    concerns: tuple[str, ...] = ()
    """One line for each difference between nodes, and for what disturbs a run on one of them, that refuses no run."""
    interpreter: Interpreter | None = None
    """The workers' Python, if it is another than this process's."""
    launcher: OpenLauncher | None = field(default=None, compare=False, repr=False)
    """The launcher with what it has taken from its engine; None for a run on this machine by this Python."""

    def close(self) -> None:
        """Give back what the launcher has taken from its engine."""
        if self.launcher is not None:
            self.launcher.close()

    @property
    def divisible(self) -> bool:
        """One device can be shared by any number of ranks."""
        return bool(self.probe.devices) and self.probe.devices[0].divisible


def probe(vendor: str) -> Probe:
    """The devices that a vendor plugin sees here; PluginError if it cannot be used."""
    found = find("vendor", vendor)
    return asked(found, Plugins([found]))


def asked(found: Found, plugins: Plugins) -> Probe:
    """The devices that a loaded vendor plugin sees here; PluginError for anything but a Probe of its vendor."""
    if not plugins.answers("llmperf_probe"):
        raise PluginError(f"{who(found)} does not answer llmperf_probe")
    with report_if_slow(found, "llmperf_probe"):
        seen = plugins.answer("llmperf_probe", Probe)
    if seen.vendor != found.name:
        raise PluginError(f"{who(found)}: llmperf_probe: vendor: expected {found.name!r}, found {seen.vendor!r}")
    return seen


def probe_all(vendor: str | None = None) -> tuple[list[Probe], list[str]]:
    """The devices that each installed vendor plugin, or the named one, sees here, and one line for each that failed."""
    seen, broken = [], []
    for name in names("vendor") if vendor is None else [vendor]:
        try:
            seen.append(probe(name))
        except LlmperfError as error:
            broken.append(str(error))
    return seen, broken


def this_machine(vendor: str | None) -> Machine:
    """The devices here: the named vendor's, otherwise the accelerators if one vendor has some, otherwise the host CPU.

    Simulated devices (`Probe.simulated`) are used only if their vendor is named.
    """
    if vendor is not None:
        return chosen_machine(vendor, [probe(vendor)], [])
    probes, broken = probe_all()
    return chosen_machine(None, probes, broken)


def chosen_machine(vendor: str | None, probes: Sequence[Probe], broken: Sequence[str]) -> Machine:
    """Choose the machine like `this_machine`, from probes; `broken` has one line for each vendor plugin that failed."""
    if vendor is not None:
        seen = next((probe for probe in probes if probe.vendor == vendor), None)
        if seen is None or not seen.devices:
            reasons = [*broken, *(seen.problems if seen else ())]
            raise UserError(f"vendor {vendor!r} sees no device here: {'; '.join(reasons) or 'it gives no reason'}")
        return Machine(vendor, seen, 1, here=True)
    usable = [probe for probe in probes if probe.devices and not probe.simulated]
    if not usable:
        simulated = [
            f"{probe.vendor} simulates one: --vendor {probe.vendor} uses it" for probe in probes if probe.devices
        ]
        reasons = [*broken, *(line for probe in probes for line in probe.problems), *simulated]
        if not reasons:
            packages = {name: package for (role, name), package in published().items() if role == "vendor"}
            anywhere = next(package for name, package in packages.items() if name not in vendors_with_catalogues())
            reasons = [f"no vendor plugin is installed; vendors: {', '.join(packages)}",
                       f"install {anywhere}, for example, with: {install_own(anywhere)}"]  # fmt: skip
        raise UserError(f"no device found: {'; '.join(reasons)}")
    # accelerators before the host CPU
    accelerators = [probe for probe in usable if probe.devices[0].kind == "accelerator"]
    own = [probe for probe in usable if of_this_project(find("vendor", probe.vendor))]
    choice = accelerators or (own if len(usable) > 1 and own else usable)
    if len(choice) > 1:
        listed = ", ".join(probe.vendor for probe in choice)
        raise UserError(f"several vendors have devices here: {listed}; choose one with --vendor")
    best = choice[0]
    return Machine(best.vendor, best, 1, here=True, left_out=tuple(broken))


ON = re.compile(r"(?P<model>.+):(?P<nodes>[1-9]\d{0,5})x(?P<devices>[1-9]\d{0,5})")


def machine_elsewhere(text: str, vendor: str | None) -> Machine:
    """The machine that `--on MODEL:NODESxDEVICES` names, from the installed vendors' catalogues."""
    match = ON.fullmatch(text.strip())
    if match is None:
        raise UserError(f"--on {text}: expected MODEL:NODESxDEVICES, such as --on A100-SXM4-40GB:1x8")
    owner, entry, broken = catalogued(match["model"], "--on", vendor)
    devices = tuple(replace(entry.devices[0], index=index) for index in range(int(match["devices"])))
    entry = replace(entry, devices=devices, simulated=True)
    return Machine(owner, entry, int(match["nodes"]), here=False, left_out=tuple(broken))


def catalogued(model: str, where: str, vendor: str | None = None) -> tuple[str, Probe, list[str]]:
    """Vendor and entry of a device by its name, and the catalogues left out; UserError with the nearest names."""
    known, broken = catalogues(vendor)
    for owner, entry in known:
        if normalised(model, owner) in {normalised(name, owner) for name in device_names(entry.devices[0])}:
            return owner, entry, broken
    missing = [name for name in vendors_with_catalogues() if vendor is None and name not in names("vendor")]
    raise unknown_device(model, known, broken, [published()["vendor", name] for name in missing], where)


def unknown_device(
    model: str, known: list[tuple[str, Probe]], broken: Sequence[str], missing: Sequence[str], where: str
) -> UserError:
    """The error for a device in no catalogue: it offers the devices whose names contain the text, or the closest name.

    `broken` has why other catalogues could not be read; packages that are `missing` are listed if no name is near.
    """
    from difflib import get_close_matches

    skipped = {line for _, entry in known for line in entry.problems if model.casefold() in line.casefold()}
    left_out = "".join(f"; left out: {line}" for line in (*broken, *sorted(skipped)))
    not_installed = (
        f"; vendors not installed: {', '.join(missing)} (`llmperf doctor` shows how to install them)" if missing else ""
    )
    start = f"{where}: unknown device model {model!r}"
    if not known:
        return UserError(f"{start}; the vendors asked have no device in their catalogues{not_installed}{left_out}")
    models = {normalised(entry.devices[0].model, owner): entry.devices[0].model for owner, entry in known}
    wanted = {normalised(model, owner) for owner in ("", *(owner for owner, _ in known))}
    words = re.findall("[a-z0-9]+", model.casefold())
    within = {full for short, full in models.items() if any(name and name in short for name in wanted)} | {
        full for short, full in models.items() if words and all(word in short for word in words)
    }
    forms = {full.casefold().rpartition(" ")[2]: full for full in models.values()} | models
    near = {forms[name] for name in get_close_matches(min(wanted, key=len), forms, n=1, cutoff=0.6)}
    if fitting := sorted(within or near):
        offered = f"did you mean {fitting[0]!r}?" if len(fitting) == 1 else f"expected one of: {', '.join(fitting)}"
        return UserError(f"{start}; {offered}{left_out}")
    return UserError(f"{start}; expected one of: {', '.join(sorted(models.values()))}{not_installed}{left_out}")


def catalogues(vendor: str | None) -> tuple[list[tuple[str, Probe]], list[str]]:
    """The models in the catalogue of the named vendor, or of all, and one line for each vendor plugin that failed."""
    known, broken = [], []
    for name in names("vendor") if vendor is None else [vendor]:
        try:
            found = find("vendor", name)
            known += [(name, entry) for entry in catalogue(found, Plugins([found]))]
        except LlmperfError as error:
            if vendor is not None:
                raise
            broken.append(str(error))
    return known, broken


def catalogued_names() -> list[list[str]]:
    """The names of each device in the catalogues of the installed vendor plugins; plugins that fail are left out."""
    return [device_names(entry.devices[0]) for _, entry in catalogues(None)[0]]
