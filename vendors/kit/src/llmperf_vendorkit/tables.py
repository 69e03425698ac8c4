"""A vendor's tables of devices, found by their whole names only.

`peaks.toml` has the dense peaks of each device, `rates.toml` the efficiencies that it is assumed to achieve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
from llmperf import read_options, read_toml
from llmperf.errors import UserError, unknown
from llmperf.types.devices import Confidence, DeviceInfo, Dtype, Offers, PeakFlops, Probe, normalised
from llmperf.types.rates import DeviceRates, LinkRate

Amount = Annotated[float, msgspec.Meta(gt=0)]
Tflops = Annotated[float, msgspec.Meta(gt=0, lt=1e5)]
"""In 1e12 FLOP/s. No device reaches a hundredth of the limit in 16 bits; a larger figure is FLOP/s by mistake."""
Efficiency = Annotated[float, msgspec.Meta(gt=0, le=1)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Date = Annotated[str, msgspec.Meta(pattern=r"^\d{4}(-\d{2}){0,2}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakEntry:
    """One `[[device]]` of the table."""

    model: Text
    """The name that the vendor's library shows."""
    aliases: tuple[Text, ...] = ()
    """Other names for exactly this device."""
    memory_gib: Amount | None = None
    """Memory of the whole device; None where unknown."""
    memory_gb_per_second: Amount | None = None
    """Bandwidth of that memory."""
    interconnect: Text | None = None
    """Between devices, such as `NVLink 600 GB/s`."""
    dense_tflops: Mapping[Dtype, Tflops]
    """By dtype, in 1e12 FLOP/s; without sparsity."""
    source: Text
    """The document and the place in it, or how the figure was obtained."""
    date: Date
    """Date of the document: a year, month or day in ISO form."""
    confidence: Confidence = "datasheet"
    """How reliable the figures are: `low` if they are derived or from a secondary source; `source` says which."""
    precisions: tuple[Dtype, ...] = ()
    """Dtypes that the device can be asked to train in; empty where the vendor's plugin decides."""
    details: Mapping[str, str] = field(default_factory=dict)
    """Other facts for the vendor's plugin."""


@dataclass(frozen=True, slots=True)
class PeakTable:
    """The devices that a vendor knows."""

    vendor: str
    """Name of the vendor plugin; device names are compared without it."""
    entries: tuple[PeakEntry, ...]
    """In the order of the file."""
    by_name: Mapping[str, PeakEntry]
    """Each entry under its normalised model and aliases."""
    problems: tuple[str, ...] = ()
    """One line for each entry or figure that was skipped: where, what was expected, what was found."""

    @classmethod
    def read(cls, path: Path, vendor: str) -> PeakTable:
        """The table in a file.

        An entry with unknown or missing keys, or with figures that are not positive, is skipped with a line in
        `problems`. A figure or precision of an unknown dtype is skipped alone, and so is a name that two entries have.
        UserError, with the file and the place in it, if no entry is left or the file is no such table.
        """
        document = read_toml(path)
        for key in document.keys() - {"device"}:
            raise unknown(str(path), "key", key, ["device"])
        listed = document.get("device", [])
        if not isinstance(listed, list):
            raise UserError(f"{path}: device: expected [[device]] tables, found {listed!r}")
        entries: list[PeakEntry] = []
        problems: list[str] = []
        for place, table in enumerate(listed):
            try:
                entries.append(_entry(table, f"{path}: device[{place}]", problems))
            except UserError as error:
                problems.append(f"{error}; the entry is skipped")
        by_name = _by_name(entries, vendor, path, problems)
        if problems and not by_name:
            raise UserError(problems[0])
        return cls(vendor, tuple(entries), by_name, tuple(problems))

    def find(self, device_model: str) -> PeakEntry | None:
        """The entry whose model or alias is this name, compared whole; None for any other device."""
        return self.by_name.get(normalised(device_model, self.vendor))

    def peak_flops(self, device_model: str, dtype: Dtype) -> PeakFlops | None:
        """The answer of `llmperf_peak_flops`; None if the device, or its figure for `dtype`, is not in the table."""
        entry = self.find(device_model)
        if entry is None or dtype not in entry.dense_tflops:
            return None
        return PeakFlops(
            device_model=device_model,
            dtype=dtype,
            flops_per_second=float(round(entry.dense_tflops[dtype] * 1e12)),
            source=entry.source,
            date=entry.date,
            confidence=entry.confidence,
        )

    def catalogue(self, offers: Callable[[PeakEntry], Offers]) -> list[Probe]:
        """The answer of `llmperf_catalogue`: one simulated device for each entry, with what `offers` gives for it."""
        return [
            Probe(
                vendor=self.vendor,
                devices=(_device(entry),),
                offers=offers(entry),
                interconnect=entry.interconnect,
                simulated=True,
                problems=self.problems,
            )
            for entry in self.entries
        ]


def _entry(table: Any, where: str, problems: list[str]) -> PeakEntry:
    if isinstance(table, dict):
        where = f"{where} ({table.get('model')})"
        figures, precisions = table.get("dense_tflops"), table.get("precisions")
        if isinstance(figures, dict):
            known = _known_dtypes(figures, f"{where}: dense_tflops", problems)
            table = {**table, "dense_tflops": {dtype: figures[dtype] for dtype in known}}
        if isinstance(precisions, list):
            known = _known_dtypes({str(dtype): None for dtype in precisions}, f"{where}: precisions", problems)
            table = {**table, "precisions": known}
    return read_options(table, PeakEntry, where)


def _known_dtypes(figures: Mapping[str, Any], where: str, problems: list[str]) -> list[str]:
    """The dtypes that this version of llmperf knows; a table for a newer one may have more."""
    dtypes = get_args(Dtype)
    for dtype, figure in figures.items():
        if dtype not in dtypes:
            value = "" if figure is None else f" {figure!r}"
            problems.append(f"{unknown(where, 'dtype', dtype, dtypes)}; the figure{value} is skipped")
    return [dtype for dtype in figures if dtype in dtypes]


def _by_name(entries: list[PeakEntry], vendor: str, path: Path, problems: list[str]) -> dict[str, PeakEntry]:
    """Each entry under its names. A name of two entries is left out; of two entries of one model, so is the second."""
    by_name: dict[str, PeakEntry] = {}
    shared: set[str] = set()
    for entry in list(entries):
        for name in (entry.model, *entry.aliases):
            other = by_name.setdefault(normalised(name, vendor), entry)
            if other is not entry:
                shared.add(normalised(name, vendor))
                fault = f"expected names of one device each, found {name!r} for {other.model} too"
                problems.append(f"{path}: ({entry.model}): {fault}; neither has that name")
        if normalised(entry.model, vendor) in shared:
            entries.remove(entry)
    return {name: entry for name, entry in by_name.items() if name not in shared}


def _device(entry: PeakEntry) -> DeviceInfo:
    bandwidth = entry.memory_gb_per_second
    details = {
        **({"aliases": ", ".join(entry.aliases)} if entry.aliases else {}),
        **({} if bandwidth is None else {"memory_bandwidth": f"{bandwidth:g} GB/s"}),
        **entry.details,
    }
    memory = None if entry.memory_gib is None else round(entry.memory_gib * 2**30)
    return DeviceInfo(index=0, model=entry.model, memory_bytes=memory, details=details)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """One `[[assumption]]` of the file: devices of one generation with the same links."""

    models: tuple[Text, ...]
    """As in the peak table."""
    matmul_efficiency: Mapping[Dtype, Efficiency]
    """Share of the peak that large matrix products reach, by dtype."""
    attention_efficiency: Mapping[str, Efficiency]
    """Share of the peak that fused attention reaches, by dtype; of one kernel by its name and dtype: `"cudnn bf16"`."""
    memory_gb_per_second: Amount | None = None
    """Bandwidth of the memory, if the peak table has none because no datasheet prints it."""
    memory_efficiency: Efficiency
    """Share of the bandwidth of the memory."""
    launch_microseconds: Amount
    """From one kernel to the next."""
    overhead_gib: Amount | None = None
    """Memory of a process beside its tensors."""
    node_gb_per_second: Amount | None = None
    """Bus bandwidth of each device to others of its node, in one direction."""
    cluster_gb_per_second: Amount | None = None
    """The same to devices of other nodes."""
    link_microseconds: Amount = 10.0
    """Latency of one message."""
    link_source: Text = "not known"
    """Where the figures of the links are from."""
    source: Text
    """Source of the efficiencies."""
    date: Date
    """ISO date."""


@dataclass(frozen=True, slots=True)
class RateTable:
    """Assumptions of a vendor about its devices."""

    peaks: PeakTable
    """The vendor's peak table, which the efficiencies multiply."""
    by_name: Mapping[str, Assumption]
    """Each assumption under its normalised models."""

    @classmethod
    def read(cls, path: Path, peaks: PeakTable) -> RateTable:
        """The table in a file; UserError with the file and the place in it if something does not fit."""
        document = read_toml(path)
        for key in document.keys() - {"assumption"}:
            raise unknown(str(path), "key", key, ["assumption"])
        by_name: dict[str, Assumption] = {}
        for place, table in enumerate(document.get("assumption", [])):
            assumption = read_options(table, Assumption, f"{path}: assumption[{place}]")
            for model in assumption.models:
                if peaks.find(model) is None:
                    known = [entry.model for entry in peaks.entries]
                    raise unknown(f"{path}: assumption[{place}].models", "device", model, known)
                if by_name.setdefault(normalised(model, peaks.vendor), assumption) is not assumption:
                    raise UserError(f"{path}: assumption[{place}].models: {model!r} has two assumptions")
        return cls(peaks, by_name)

    def device_rates(self, device_model: str) -> DeviceRates | None:
        """The answer of `llmperf_device_rates`: None if the device, its assumption or its bandwidth is not known."""
        entry = self.peaks.find(device_model)
        assumption = self.by_name.get(normalised(entry.model, self.peaks.vendor)) if entry else None
        if entry is None or assumption is None:
            return None
        bandwidth = entry.memory_gb_per_second or assumption.memory_gb_per_second
        if bandwidth is None:
            return None
        return DeviceRates(
            device_model=device_model,
            basis="assumed",
            matmul_flops_per_second=_achieved(entry, assumption.matmul_efficiency),
            attention_flops_per_second=_achieved(entry, assumption.attention_efficiency),
            memory_bytes_per_second=bandwidth * 1e9 * assumption.memory_efficiency,
            launch_seconds=assumption.launch_microseconds * 1e-6,
            memory_bytes=None if entry.memory_gib is None else round(entry.memory_gib * 2**30),
            links=_links(assumption),
            source=f"{entry.source}; {assumption.source}",
            date=assumption.date,
            overhead_bytes=None if assumption.overhead_gib is None else round(assumption.overhead_gib * 2**30),
        )


def _achieved(entry: PeakEntry, efficiency: Mapping[Any, float]) -> dict[str, float]:
    peaks = {str(dtype): tflops * 1e12 for dtype, tflops in entry.dense_tflops.items()}
    named = {str(name): (str(name).split()[-1], share) for name, share in efficiency.items()}
    return {name: float(round(peaks[dtype] * share)) for name, (dtype, share) in named.items() if dtype in peaks}


def _links(assumption: Assumption) -> tuple[LinkRate, ...]:
    scopes = (("node", assumption.node_gb_per_second), ("cluster", assumption.cluster_gb_per_second))
    return tuple(
        LinkRate(
            scope="node" if scope == "node" else "cluster",
            bytes_per_second=bandwidth * 1e9,
            latency_seconds=assumption.link_microseconds * 1e-6,
            source=assumption.link_source,
        )
        for scope, bandwidth in scopes
        if bandwidth is not None
    )
