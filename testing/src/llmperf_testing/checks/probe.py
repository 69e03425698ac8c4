"""A vendor plugin's probe, with devices and without, and its claims: peaks, and the catalogue of models it knows."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import fields

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.types import Dtype, PeakFlops, Probe
from llmperf.types.devices import device_names, normalised
from llmperf.validation.plugin_data import about

from llmperf_testing.check import ContractError, Skip, check, require
from llmperf_testing.checks.announced import answers_what_its_role_must, is_loaded
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
        read = json_files.decode(json_files.encode(probe), Probe, "Probe")
    except (UserError, TypeError, ValueError) as error:
        raise ContractError(f"a plan cannot hold it: {error}") from None
    for name in (one.name for one in fields(Probe)):
        given, back = getattr(probe, name), getattr(read, name)
        other = f": {name} is {given!r}, then {back!r}"[:300]
        require(given == back, f"read back from a plan it is another{other}; expected tuples, texts and whole numbers")


@check(is_loaded, answers_what_its_role_must)
def probe_has_its_shape(subject: VendorSubject) -> None:
    """`llmperf_probe` raises nothing and gives a Probe of this vendor that a plan can hold."""
    require_probe(subject.probe, subject)


@check(probe_has_its_shape)
def devices_are_told_apart(subject: VendorSubject) -> None:
    """Each device has an index and a UUID of its own, in rising order, and the name of its model."""
    devices = subject.devices_here()
    indexes = [one.index for one in devices]
    require(indexes == sorted(set(indexes)), f"indexes {indexes}: expected each once, in rising order")
    uuids = [one.uuid for one in devices if one.uuid is not None]
    require(len(set(uuids)) == len(uuids), f"UUIDs {uuids}: expected each once")
    for one in devices:
        require_line(one.model, f"the name of device {one.index}")


@check(probe_has_its_shape)
def offers_can_be_used(subject: VendorSubject) -> None:
    """It offers precisions, runtimes and a way for ranks to talk, each once."""
    offers = subject.probe.offers
    for what, given in (("precisions", offers.precisions), ("runtimes", offers.runtimes)):
        require(given and len(set(given)) == len(given), f"offers.{what} {list(given)}: expected some, each once")
    foreign = [one for one in offers.precisions if one not in PRECISIONS]
    require(not foreign, f"offers.precisions {foreign}: expected some of {', '.join(PRECISIONS)}")
    require_line(offers.collective_backend, "offers.collective_backend")


@check(is_loaded, probe_has_its_shape)
def probe_survives_a_bare_machine(subject: VendorSubject) -> None:
    """In a fresh process with no command on its PATH, `llmperf_probe` raises nothing."""
    error = subject.fresh.hook_error
    require(error is None, f"llmperf_probe raised {error}; expected a Probe without devices whose problems say why")


@check(probe_survives_a_bare_machine)
def no_device_has_a_reason(subject: VendorSubject) -> None:
    """A probe that shows no device says why, in lines; what it cannot see is no failure."""
    reasons = subject.fresh.reasons
    if reasons is None:
        return
    require(reasons, "no device and no problem: expected a line that says why")
    for line in reasons:
        require_line(line, "a line of Probe.problems")


@check(probe_survives_a_bare_machine)
def probe_loads_no_tensor_library(subject: VendorSubject) -> None:
    """The probe asks the vendor's management library: the controller never imports a tensor library."""
    brought = sorted(set(subject.fresh.heavy_after_hook) - set(subject.fresh.heavy_imports))
    require(not brought, f"after llmperf_probe {', '.join(brought)} is loaded")


@check(probe_has_its_shape)
def probe_repeats(subject: VendorSubject) -> None:
    """Asked again, the probe shows the same devices."""
    first, second = subject.probe, subject.ask("llmperf_probe")
    facts = [[(one.index, one.model, one.memory_bytes, one.uuid) for one in probe.devices] for probe in (first, second)]
    require(facts[0] == facts[1], f"first {facts[0]}, then {facts[1]}")


HALVED = re.compile(r"\bhalved|\bhalf\b|/ ?2\b|\bdense\b|\bbefore\b|\bwithout\b", re.IGNORECASE)
"""Words of a source that gives sparse figures too and says how the dense one follows."""
UNKNOWN_MODEL = "No Such Device 9000"
DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
SPARSE = re.compile(
    r"\b(with|using|including) (structured |2:4 )?sparsity\b|\bsparse (peak|figure|tflops)", re.IGNORECASE
)


@check(probe_has_its_shape)
def catalogue_has_its_shape(subject: VendorSubject) -> None:
    """Each entry of the catalogue is a simulated Probe of one device, and no model is listed twice."""
    for entry in subject.catalogue:
        require_probe(entry, subject)
        require(len(entry.devices) == 1, f"an entry has {len(entry.devices)} devices; expected 1")
        require_line(entry.devices[0].model, "a model of the catalogue")
        require(not entry.problems, "; ".join(entry.problems))
        require(entry.simulated, f"{entry.devices[0].model}: expected simulated = True; it is not on this machine")
    models = [normalised(entry.devices[0].model, subject.name) for entry in subject.catalogue]
    require(len(set(models)) == len(models), f"a model is listed twice: {', '.join(sorted(models))}")


@check(probe_has_its_shape)
def peaks_have_their_shape(subject: VendorSubject) -> None:
    """A peak is a positive number for the device and precision that were asked for, or None."""
    try:
        subject.rests_on(catalogue_has_its_shape)
    except Skip:
        if subject.plugins.answers("llmperf_catalogue"):
            raise
    for model, dtype, peak in subject.peaks():
        where = f"{model}, {dtype}"
        if not isinstance(peak, PeakFlops):
            raise ContractError(f"{where}: expected PeakFlops or None, found {type(peak).__name__}")
        require(peak.dtype == dtype, f"{where}: the answer is for {peak.dtype}")
        same = normalised(peak.device_model, subject.name) == normalised(model, subject.name)
        require(same, f"{where}: the answer is for {peak.device_model}")
        positive = math.isfinite(peak.flops_per_second) and peak.flops_per_second > 0
        require(positive, f"{where}: expected FLOP/s above 0, found {peak.flops_per_second}")


@check(peaks_have_their_shape)
def peaks_have_source_and_date(subject: VendorSubject) -> None:
    """Each peak says where it comes from and of when that is."""
    for model, dtype, peak in subject.peaks():
        require_line(peak.source, f"{model}, {dtype}: source")
        require(DATE.fullmatch(peak.date), f"{model}, {dtype}: date: expected YYYY-MM-DD, found {peak.date!r}")
        tomorrow = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)).date().isoformat()
        require(peak.date <= tomorrow, f"{model}, {dtype}: date {peak.date} has not come yet")


@check(peaks_have_their_shape)
def peaks_are_dense(subject: VendorSubject) -> None:
    """No peak is one of sparse matrices by its own source."""
    for model, dtype, peak in subject.peaks():
        dense = not SPARSE.search(peak.source) or HALVED.search(peak.source)
        require(dense, f"{model}, {dtype}: expected a dense peak, its source: {peak.source!r}")


def _require_no_peak(subject: VendorSubject, model: str, dtype: Dtype) -> None:
    peak = subject.peak(model, dtype)
    require(
        peak is None, f"{model!r}, {dtype}: expected None, found {peak}; unknown is None, never a neighbour's figure"
    )


@check(probe_has_its_shape)
def unknown_device_has_no_peak(subject: VendorSubject) -> None:
    """An unknown device has no peak."""
    for dtype in PRECISIONS:
        _require_no_peak(subject, UNKNOWN_MODEL, dtype)


@check(peaks_have_their_shape, unknown_device_has_no_peak)
def part_of_a_name_has_no_peak(subject: VendorSubject) -> None:
    """A name that only begins like a known device's, or goes on after it, has no peak."""
    known = {normalised(one, subject.name) for one in subject.known_names()}
    for model, dtype, _ in subject.peaks():
        for other in (f"{model} Turbo 9000", model[: max(1, len(model) // 2)]):
            if normalised(other, subject.name) not in known:
                _require_no_peak(subject, other, dtype)


@check(peaks_have_their_shape, catalogue_has_its_shape)
def catalogue_agrees_with_peaks(subject: VendorSubject) -> None:
    """A model of the catalogue has peaks only for precisions that it offers."""
    for entry in subject.catalogue:
        model = entry.devices[0].model
        has = [dtype for dtype in PRECISIONS if subject.peak(model, dtype) is not None]
        foreign = [dtype for dtype in has if dtype not in entry.offers.precisions]
        offered = ", ".join(entry.offers.precisions)
        require(not foreign, f"{model} has a peak for {', '.join(foreign)}, but offers {offered}")


@check(catalogue_has_its_shape)
def devices_agree_with_catalogue(subject: VendorSubject) -> None:
    """A device that is seen here has about the memory that the catalogue gives its model, and is as divisible."""
    models = [one.devices[0] for one in subject.catalogue]
    listed = {normalised(name, subject.name): one for one in models for name in device_names(one)}
    for device in subject.probe.devices:
        known = listed.get(normalised(device.model, subject.name))
        if known is not None and device.divisible != known.divisible:
            divided = "divisible here, not in the catalogue" if device.divisible else "divisible in the catalogue alone"
            raise ContractError(f"{device.model}: {divided}; every run would be invalid (LP308)")
        if known is not None and device.memory_bytes is not None:
            message = f"{device.model}: {device.memory_bytes} bytes here, {known.memory_bytes} in the catalogue"
            require(about(known.memory_bytes, device.memory_bytes / 2**30), message)
