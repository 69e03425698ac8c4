"""A vendor's assumptions on what its devices achieve, `rates.toml`: efficiencies that multiply its peak table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import msgspec

from llmperf.errors import UserError, unknown
from llmperf.files.json_files import convert
from llmperf.files.user_files import read_toml
from llmperf.types.devices import Dtype
from llmperf.types.rates import DeviceRates, LinkRate
from llmperf.vendorkit.peaks import Amount, Date, PeakEntry, PeakTable, Text, normalised

Efficiency = Annotated[float, msgspec.Meta(gt=0, le=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """One `[[assumption]]` of the file: devices of one generation with the same links."""

    models: tuple[Text, ...]
    """As in the peak table."""
    matmul_efficiency: Mapping[Dtype, Efficiency]
    """Of the peak that large matrix products reach, by dtype."""
    attention_efficiency: Mapping[str, Efficiency]
    """Of the peak that fused attention reaches, by dtype; of one kernel by its name and dtype: `"cudnn bf16"`."""
    memory_gb_per_second: Amount | None = None
    """Bandwidth of the memory, if the peak table has none because no datasheet prints it."""
    memory_efficiency: Efficiency
    """Of the bandwidth of the memory."""
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
    """What the efficiencies are from."""
    date: Date
    """ISO date."""


@dataclass(frozen=True, slots=True)
class RateTable:
    """What a vendor assumes of its devices."""

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
            assumption = _assumption(table, f"{path}: assumption[{place}]")
            for model in assumption.models:
                if peaks.find(model) is None:
                    known = [entry.model for entry in peaks.entries]
                    raise unknown(f"{path}: assumption[{place}].models", "device", model, known)
                if by_name.setdefault(normalised(model, peaks.vendor), assumption) is not assumption:
                    raise UserError(f"{path}: assumption[{place}].models: {model!r} has two assumptions")
        return cls(peaks, by_name)

    def device_rates(self, device_model: str) -> DeviceRates | None:
        """What `llmperf_device_rates` answers: None if the device, its assumption or its bandwidth is not known."""
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


def _assumption(table: Any, where: str) -> Assumption:
    keys = [field.name for field in fields(Assumption)]
    for key in table.keys() - set(keys) if isinstance(table, dict) else ():
        raise unknown(where, "key", key, keys)
    return convert(table, Assumption, where)


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
