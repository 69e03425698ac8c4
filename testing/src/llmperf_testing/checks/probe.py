"""Checks of a vendor plugin's probe, with devices and without."""

from __future__ import annotations

from dataclasses import fields

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.types import Probe

from llmperf_testing.check import ContractError, require
from llmperf_testing.checks.hooks import answers_what_its_role_must, is_loaded
from llmperf_testing.vendor import PRECISIONS, VendorSubject

RUNTIMES = ("torch", "paddle")
LONGEST_LINE = 1000


def require_line(text: str, what: str) -> None:
    """ContractError unless it is one line that says something."""
    require(isinstance(text, str) and text.strip(), f"{what} is empty")
    require(text.isprintable(), f"{what} is not one printable line: {text!r}")
    require(len(text) <= LONGEST_LINE, f"{what} has {len(text)} characters; expected {LONGEST_LINE} at most")


def require_probe(probe: object, subject: VendorSubject) -> None:
    """ContractError unless it is a Probe of this vendor that a plan can hold."""
    if not isinstance(probe, Probe):
        raise ContractError(f"expected a Probe, found {type(probe).__name__}")
    require(probe.vendor == subject.name, f"Probe.vendor: expected {subject.name!r}, found {probe.vendor!r}")
    try:
        same = json_files.decode(json_files.encode(probe), Probe, "Probe") == probe
    except (UserError, TypeError, ValueError) as error:
        raise ContractError(f"a plan cannot hold it: {error}") from None
    require(same, f"read back from a plan it is another{_first_other(probe)}; expected tuples, texts and whole numbers")


def _first_other(probe: Probe) -> str:
    """Name of the field that is read back with another value."""
    read = json_files.decode(json_files.encode(probe), Probe, "Probe")
    for one in fields(Probe):
        given, back = getattr(probe, one.name), getattr(read, one.name)
        if given != back:
            return f": {one.name} is {given!r}, then {back!r}"[:300]
    return ""


def probe_has_its_shape(subject: VendorSubject) -> None:
    """`llmperf_probe` raises nothing and gives a Probe of this vendor that a plan can hold."""
    subject.rests_on(is_loaded, answers_what_its_role_must)
    require_probe(subject.probe, subject)


def devices_are_told_apart(subject: VendorSubject) -> None:
    """Each device has an index and a UUID of its own, in rising order, and the name of its model."""
    subject.rests_on(probe_has_its_shape)
    devices = subject.devices_here()
    indexes = [one.index for one in devices]
    require(indexes == sorted(set(indexes)), f"indexes {indexes}: expected each once, in rising order")
    uuids = [one.uuid for one in devices if one.uuid is not None]
    require(len(set(uuids)) == len(uuids), f"UUIDs {uuids}: expected each once")
    for one in devices:
        require_line(one.model, f"the name of device {one.index}")


def offers_can_be_used(subject: VendorSubject) -> None:
    """It offers precisions, runtimes and a way for ranks to talk, each once."""
    subject.rests_on(probe_has_its_shape)
    offers = subject.probe.offers
    for what, given in (("precisions", offers.precisions), ("runtimes", offers.runtimes)):
        require(given and len(set(given)) == len(given), f"offers.{what} {list(given)}: expected some, each once")
    foreign = [one for one in offers.precisions if one not in PRECISIONS]
    require(not foreign, f"offers.precisions {foreign}: expected some of {', '.join(PRECISIONS)}")
    require_line(offers.collective_backend, "offers.collective_backend")


def no_device_has_a_reason(subject: VendorSubject) -> None:
    """A probe that shows no device says why, in lines; what it cannot see is no failure."""
    subject.rests_on(probe_survives_a_bare_machine)
    reasons = subject.fresh.reasons
    if reasons is None:
        return
    require(reasons, "no device and no problem: expected a line that says why")
    for line in reasons:
        require_line(line, "a line of Probe.problems")


def probe_survives_a_bare_machine(subject: VendorSubject) -> None:
    """In a fresh process with no command on its PATH, `llmperf_probe` raises nothing."""
    subject.rests_on(is_loaded, probe_has_its_shape)
    error = subject.fresh.hook_error
    require(error is None, f"llmperf_probe raised {error}; expected a Probe without devices whose problems say why")


def probe_loads_no_tensor_library(subject: VendorSubject) -> None:
    """The probe asks the vendor's management library: the controller never imports a tensor library."""
    subject.rests_on(probe_survives_a_bare_machine)
    brought = sorted(set(subject.fresh.heavy_after_hook) - set(subject.fresh.heavy_imports))
    require(not brought, f"after llmperf_probe {', '.join(brought)} is loaded")


def probe_repeats(subject: VendorSubject) -> None:
    """Asked again, the probe shows the same devices."""
    subject.rests_on(probe_has_its_shape)
    first, second = subject.probe, subject.ask("llmperf_probe")
    facts = [[(one.index, one.model, one.memory_bytes, one.uuid) for one in probe.devices] for probe in (first, second)]
    require(facts[0] == facts[1], f"first {facts[0]}, then {facts[1]}")


PROBE = (
    probe_has_its_shape,
    devices_are_told_apart,
    offers_can_be_used,
    probe_survives_a_bare_machine,
    no_device_has_a_reason,
    probe_loads_no_tensor_library,
    probe_repeats,
)
