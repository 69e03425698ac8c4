"""The claims of a vendor plugin: peaks, and the catalogue of models it knows."""

from __future__ import annotations

import datetime
import math
import re

from llmperf.types import Dtype, PeakFlops, Probe
from llmperf.types.devices import device_names, normalised
from llmperf.validation.installed import about

from llmperf_testing.check import ContractError, Skip, require
from llmperf_testing.checks.probe import probe_has_its_shape, require_line, require_probe
from llmperf_testing.vendor import PRECISIONS, VendorSubject

HALVED = re.compile(r"\bhalved|\bhalf\b|/ ?2\b|\bdense\b|\bbefore\b|\bwithout\b", re.IGNORECASE)
"""Words of a source that gives sparse figures too and says how the dense one follows."""
UNKNOWN_MODEL = "No Such Device 9000"
DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
SPARSE = re.compile(
    r"\b(with|using|including) (structured |2:4 )?sparsity\b|\bsparse (peak|figure|tflops)", re.IGNORECASE
)


def catalogue_has_its_shape(subject: VendorSubject) -> None:
    """Each entry of the catalogue is a simulated Probe of one device, and no model is listed twice."""
    subject.rests_on(probe_has_its_shape)
    for entry in subject.catalogue:
        require_probe(entry, subject)
        require(len(entry.devices) == 1, f"an entry has {len(entry.devices)} devices; expected 1")
        require_line(entry.devices[0].model, "a model of the catalogue")
        require(not entry.problems, "; ".join(entry.problems))
        require(entry.simulated, f"{entry.devices[0].model}: expected simulated = True; it is not on this machine")
    models = [normalised(entry.devices[0].model, subject.name) for entry in subject.catalogue]
    require(len(set(models)) == len(models), f"a model is listed twice: {', '.join(sorted(models))}")


def _catalogue_if_any(subject: VendorSubject) -> None:
    try:
        subject.rests_on(catalogue_has_its_shape)
    except Skip:
        if subject.plugins.answers("llmperf_catalogue"):
            raise


def peaks_have_their_shape(subject: VendorSubject) -> None:
    """A peak is a positive number for the device and precision that were asked for, or None."""
    subject.rests_on(probe_has_its_shape)
    _catalogue_if_any(subject)
    for model, dtype, peak in subject.peaks():
        where = f"{model}, {dtype}"
        if not isinstance(peak, PeakFlops):
            raise ContractError(f"{where}: expected PeakFlops or None, found {type(peak).__name__}")
        require(peak.dtype == dtype, f"{where}: the answer is for {peak.dtype}")
        require(_same(peak.device_model, model, subject), f"{where}: the answer is for {peak.device_model}")
        positive = math.isfinite(peak.flops_per_second) and peak.flops_per_second > 0
        require(positive, f"{where}: expected FLOP/s above 0, found {peak.flops_per_second}")


def _same(one: str, other: str, subject: VendorSubject) -> bool:
    return normalised(one, subject.name) == normalised(other, subject.name)


def peaks_have_source_and_date(subject: VendorSubject) -> None:
    """Each peak says where it comes from and of when that is."""
    subject.rests_on(peaks_have_their_shape)
    for model, dtype, peak in subject.peaks():
        require_line(peak.source, f"{model}, {dtype}: source")
        require(DATE.fullmatch(peak.date), f"{model}, {dtype}: date: expected YYYY-MM-DD, found {peak.date!r}")
        tomorrow = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)).date().isoformat()
        require(peak.date <= tomorrow, f"{model}, {dtype}: date {peak.date} has not come yet")


def peaks_are_dense(subject: VendorSubject) -> None:
    """No peak is one of sparse matrices by its own source."""
    subject.rests_on(peaks_have_their_shape)
    for model, dtype, peak in subject.peaks():
        dense = not SPARSE.search(peak.source) or HALVED.search(peak.source)
        require(dense, f"{model}, {dtype}: expected a dense peak, its source: {peak.source!r}")


def _require_no_peak(subject: VendorSubject, model: str, dtype: Dtype) -> None:
    peak = subject.peak(model, dtype)
    require(
        peak is None, f"{model!r}, {dtype}: expected None, found {peak}; unknown is None, never a neighbour's figure"
    )


def unknown_device_has_no_peak(subject: VendorSubject) -> None:
    """An unknown device has no peak."""
    subject.rests_on(probe_has_its_shape)
    for dtype in PRECISIONS:
        _require_no_peak(subject, UNKNOWN_MODEL, dtype)


def part_of_a_name_has_no_peak(subject: VendorSubject) -> None:
    """A name that only begins like a known device's, or goes on after it, has no peak."""
    subject.rests_on(peaks_have_their_shape, unknown_device_has_no_peak)
    known = {normalised(one, subject.name) for one in subject.known_names()}
    for model, dtype, _ in subject.peaks():
        for other in (f"{model} Turbo 9000", model[: max(1, len(model) // 2)]):
            if normalised(other, subject.name) not in known:
                _require_no_peak(subject, other, dtype)


def catalogue_agrees_with_peaks(subject: VendorSubject) -> None:
    """A model of the catalogue has peaks only for precisions that it offers."""
    subject.rests_on(peaks_have_their_shape, catalogue_has_its_shape)
    for entry in subject.catalogue:
        model = entry.devices[0].model
        has = [dtype for dtype in PRECISIONS if subject.peak(model, dtype) is not None]
        foreign = [dtype for dtype in has if dtype not in entry.offers.precisions]
        offered = ", ".join(entry.offers.precisions)
        require(not foreign, f"{model} has a peak for {', '.join(foreign)}, but offers {offered}")


def devices_agree_with_catalogue(subject: VendorSubject) -> None:
    """A device that is seen here has about the memory that the catalogue gives its model."""
    subject.rests_on(catalogue_has_its_shape)
    listed = {normalised(name, subject.name): one.devices[0] for one in subject.catalogue for name in _names(one)}
    for device in subject.probe.devices:
        known = listed.get(normalised(device.model, subject.name))
        if known is not None and device.memory_bytes is not None:
            message = f"{device.model}: {device.memory_bytes} bytes here, {known.memory_bytes} in the catalogue"
            require(about(known.memory_bytes, device.memory_bytes / 2**30), message)


def _names(entry: Probe) -> list[str]:
    return device_names(entry.devices[0])


PEAKS = (
    catalogue_has_its_shape,
    peaks_have_their_shape,
    peaks_have_source_and_date,
    peaks_are_dense,
    unknown_device_has_no_peak,
    part_of_a_name_has_no_peak,
    catalogue_agrees_with_peaks,
    devices_agree_with_catalogue,
)
