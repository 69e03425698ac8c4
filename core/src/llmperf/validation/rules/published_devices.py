"""Imported documents against what the vendor publishes of the device: peak, memory, dtypes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llmperf.types.devices import DeviceInfo, Precision
from llmperf.types.published import Figure, Published, PublishedRow
from llmperf.validation.catalogue import Violation, rule
from llmperf.validation.devices import VendorCatalogue, about, installed_vendors, vendor_catalogue
from llmperf.validation.reading import shown
from llmperf.validation.rules.published_layout import place, world_size
from llmperf.validation.rules.shipped import shipped_case, shipped_model
from llmperf.validation.rules.utilisation import count

HALF: tuple[Precision, ...] = ("bf16", "fp16")
CONVENTIONS = ("nominal", "exact", "palm", "causal", "hfu")


@dataclass(frozen=True, slots=True)
class _Machine:
    """The devices that a row may have been run on, of which there are several where it names only a family."""

    catalogue: VendorCatalogue
    devices: Sequence[DeviceInfo]

    def peaks(self, dtypes: Sequence[Precision]) -> list[float]:
        """FLOP/s, without those that are unknown."""
        found = [self.catalogue.peak(device, dtype) for device in self.devices for dtype in dtypes]
        return sorted({one.flops_per_second for one in found if one is not None})


def _machine(published: Published, row: PublishedRow) -> _Machine | None:
    """None where the vendor's plugin is not installed or does not publish the device."""
    catalogue = vendor_catalogue(published.vendor) if published.vendor else None
    if catalogue is None:
        return None
    model = row.hardware.device_model
    exact = catalogue.exact(model) if model else None
    memory = row.hardware.device_memory
    found = [exact] if exact else catalogue.called(row.hardware.device or model or "", memory)
    return _Machine(catalogue, found) if found else None


def _dtypes(row: PublishedRow) -> tuple[Precision, ...]:
    """Those a row may mean: `amp` is either of 16 bits."""
    if row.precision:
        return (row.precision,)
    words = (row.precision_text or "").lower()
    return HALF if "amp" in words or "mixed" in words or "混合" in words else ()


def _flops(row: PublishedRow) -> dict[str, float]:
    """FLOPs per token of the row's model by convention, as far as its facts are known."""
    model = shipped_model(row.model) if row.model else None
    case = shipped_case(row.case) if row.case else None
    if model is None or (row.framework == "lora") != (case is not None and case.contract.lora is not None):
        return {}
    if case is None:
        return {"nominal": 6.0 * model.nominal_parameters}
    counted = count(model, case.contract, case.tuning)
    alike = row.batch.seq_len == case.contract.seq_len
    names = CONVENTIONS if alike else ("nominal", "exact")
    return {} if counted is None else {name: float(counted.of(name).flops) for name in names}


@rule("LP311", "error", "A published MFU is token/p/s x FLOPs per token / peak", "published")
def published_mfu(published: Published) -> Iterator[Violation]:
    """To the printed digits, by any convention and for any of the devices that the row may mean."""
    for index, row, machine in _rows(published):
        mfu, each = row.metrics.mfu, _each(row)
        if mfu is None or mfu.value is None or each is None:
            continue
        flops, peaks = _flops(row), machine.peaks(_dtypes(row))
        if not flops or not peaks or any(_agrees(mfu, each, one, peak) for one in flops.values() for peak in peaks):
            continue
        value = each.value or 0.0
        share = value * flops["nominal"] / peaks[-1]
        because = f"{each.text} x {flops['nominal']:.3g} / {peaks[-1]:.4g}, nominal"
        hint = _hint(mfu, each, flops["nominal"], machine, row)
        found = f"expected {100 * share:.3g} % ({because}), found {mfu.text}{hint}, {place(row)}"
        yield f"/rows/{index}/metrics/mfu", found


def _rows(published: Published) -> Iterator[tuple[int, PublishedRow, _Machine]]:
    for index, row in enumerate(published.rows):
        machine = _machine(published, row)
        if machine is not None:
            yield index, row, machine


def _each(row: PublishedRow) -> Figure | None:
    """Throughput of one device, printed or computed from that of all; None where it is withheld."""
    each, whole, devices = row.metrics.tokens_per_second_per_device, row.metrics.tokens_per_second, world_size(row)
    if each is not None and each.value is not None:
        return each
    if whole is None or whole.value is None or not devices:
        return None
    return Figure(text=f"{whole.text} / {devices}", value=whole.value / devices)


def _agrees(mfu: Figure, each: Figure, flops: float, peak: float) -> bool:
    """Whether some throughput that is printed so gives some share that is."""
    (low, high), (least, most) = each.bounds, mfu.bounds
    slack = 1e-9 * most
    return low * flops / peak <= most + slack and high * flops / peak >= least - slack


def _hint(mfu: Figure, each: Figure, flops: float, machine: _Machine, row: PublishedRow) -> str:
    """What the printed figure would be right for, where that can be told."""
    value, peaks = mfu.value or 0.0, machine.peaks(_dtypes(row))
    for factor in (100, 0.01):
        moved = Figure(text="", value=value * factor, printed=mfu.printed, scale=mfu.scale * factor)
        if any(_agrees(moved, each, flops, peak) for peak in peaks):
            return "; a hundredfold of it" if factor < 1 else "; a hundredth of it"
    for device, _ in machine.catalogue.devices:
        for dtype in ("fp16", "bf16", "tf32", "fp32"):
            peak = machine.catalogue.peak(device, dtype)
            if peak is not None and _agrees(mfu, each, flops, peak.flops_per_second):
                return f", which is right for the {dtype} peak of {device.model}"
    doubled = any(_agrees(mfu, each, flops, 2 * peak) for peak in peaks)
    return ", which is right for twice the peak, as with sparsity" if doubled else ""


@rule("LP312", "warning", "A published MFU is by the nominal convention", "published")
def mfu_is_nominal(published: Published) -> Iterator[Violation]:
    """A figure by another convention must not be held against the others."""
    for index, row, machine in _rows(published):
        mfu, each = row.metrics.mfu, _each(row)
        if mfu is None or mfu.value is None or each is None:
            continue
        flops, peaks = _flops(row), machine.peaks(_dtypes(row))
        by = [name for name, one in flops.items() if any(_agrees(mfu, each, one, peak) for peak in peaks)]
        if by and "nominal" not in by:
            found = f"found {mfu.text}, which is that of {by[0]}, {place(row)}"
            yield f"/rows/{index}/metrics/mfu", f"expected the MFU of 6 x nominal parameters, {found}"


@rule("LP313", "error", "No published device computes faster than its peak", "published")
def within_the_peak(published: Published) -> Iterator[Violation]:
    """Held against the highest peak that the row's precision may mean: TF32 for fp32, where the device has it."""
    for index, row in enumerate(published.rows):
        mfu = row.metrics.mfu
        if mfu is not None and mfu.value is not None and mfu.bounds[0] > 1:
            yield f"/rows/{index}/metrics/mfu", f"expected at most 100 %, found {mfu.text}, {place(row)}"
    for index, row, machine in _rows(published):
        dtypes = _dtypes(row)
        peaks = machine.peaks((*dtypes, "tf32") if "fp32" in dtypes else dtypes)
        computed = _computed(row)
        if peaks and computed and computed > peaks[-1]:
            expected = f"expected at most {peaks[-1] / 1e12:.4g} TFLOP/s ({'/'.join(dtypes)})"
            path = f"/rows/{index}/metrics/tokens_per_second_per_device"
            yield path, f"{expected}, found {_spent(row)}, {place(row)}"


@rule("LP314", "warning", "A row that says fp32 is not faster than fp32", "published")
def truly_fp32(published: Published) -> Iterator[Violation]:
    """TF32 is another dtype; a row that used it has to say so."""
    for index, row, machine in _rows(published):
        single, computed = machine.peaks(("fp32",)), _computed(row)
        reduced = machine.peaks(("tf32",))
        if row.precision != "fp32" or not single or not computed or computed <= single[-1]:
            continue
        if reduced and computed <= reduced[-1]:
            expected = f"expected at most {single[-1] / 1e12:.4g} TFLOP/s (fp32)"
            path = f"/rows/{index}/metrics/tokens_per_second_per_device"
            yield path, f"{expected}, found {_spent(row)}; TF32 could, {place(row)}"


def _computed(row: PublishedRow) -> float | None:
    """FLOP/s of one device, nominal; the least that the printed throughput stands for."""
    each, flops = _each(row), _flops(row).get("nominal")
    return None if each is None or flops is None else each.bounds[0] * flops


def _spent(row: PublishedRow) -> str:
    each, flops = _each(row), _flops(row)["nominal"]
    assert each is not None
    value = each.value or 0.0
    return f"{value * flops / 1e12:.4g} TFLOP/s ({each.text} token/p/s x {flops:.3g})"


@rule("LP411", "error", "Published memory is within the device's own", "published")
def memory_within_device(published: Published) -> Iterator[Violation]:
    """In use is at most the total, and the total is what the device has."""
    for index, row in enumerate(published.rows):
        yield from _named_memory(published, row, f"/rows/{index}/hardware/device_memory")
        memory = row.metrics.memory
        if memory is None:
            continue
        path, machine = f"/rows/{index}/metrics/memory", _machine(published, row)
        used = max((part.each.value for part in memory.used if part.each.value is not None), default=None)
        total = memory.total.value if memory.total else None
        if used is not None and total is not None and used > total:
            yield f"{path}/used", f"expected at most {total:g}, found {used:g} in {memory.text!r}, {place(row)}"
        sizes = [one.memory_bytes for one in machine.devices] if machine else []
        if not sizes or None in sizes:
            continue
        named = f"{max(filter(None, sizes)) / 2**30:.4g} GiB ({_models(machine)})"
        if total is not None and not any(about(size, total) for size in sizes):
            yield f"{path}/total", f"expected {named}, found {total:g} in {memory.text!r}, {place(row)}"
        elif total is None and used is not None and not any(_holds(size, used) for size in sizes):
            yield f"{path}/used", f"expected at most {named}, found {used:g} in {memory.text!r}, {place(row)}"


def _named_memory(published: Published, row: PublishedRow, path: str) -> Iterator[Violation]:
    """A row that says `1x8*40G` names a device that there is with 40 GB."""
    catalogue = vendor_catalogue(published.vendor) if published.vendor else None
    name, memory = row.hardware.device, row.hardware.device_memory
    if catalogue is None or name is None or memory is None or catalogue.called(name, memory):
        return
    sizes = {round(one.memory_bytes / 2**30) for one in catalogue.called(name, None) if one.memory_bytes}
    if sizes:
        expected = f"expected {name} with {' or '.join(map(str, sorted(sizes)))} GB"
        yield path, f"{expected}, found {memory} GB, {place(row)}"


def _holds(size: int | None, used: float) -> bool:
    return about(size, used) or used * 1e9 <= (size or 0)


def _models(machine: _Machine | None) -> str:
    models = [one.model for one in machine.devices] if machine else []
    return models[0] if len(models) == 1 else f"{models[0]} or the like"


@rule("LP412", "error", "Terms of a memory figure are those of the layout", "published")
def memory_terms(published: Published) -> Iterator[Violation]:
    """`46.80*2 + 38.93*2 + ...` has a term for each pipeline stage, and counts each device once."""
    for index, row in enumerate(published.rows):
        memory, world = row.metrics.memory, world_size(row)
        stages = row.parallelism.pipeline_parallel or 1
        parts = memory.used if memory else ()
        path = f"/rows/{index}/metrics/memory/used"
        if len(parts) > 1 and len(parts) != stages:
            yield path, f"expected a term for each of {stages} pipeline stages, found {len(parts)}, {place(row)}"
        counted = [part.devices for part in parts]
        if world and counted and all(counted) and sum(filter(None, counted)) != world:
            total = sum(filter(None, counted))
            yield path, f"expected {world} devices in all, found {total} in {memory.text!r}, {place(row)}"  # type: ignore[union-attr]


@rule("LP413", "error", "The device of a published row offers its precision", "published")
def precision_is_offered(published: Published) -> Iterator[Violation]:
    """The vendor publishes which dtypes a device computes in."""
    for index, row, machine in _rows(published):
        offered = {dtype for device in machine.devices for dtype in machine.catalogue.precisions(device)}
        if row.precision and offered and row.precision not in offered:
            expected = f"expected one of {', '.join(sorted(offered))} ({_models(machine)})"
            yield f"/rows/{index}/precision", f"{expected}, found {row.precision}, {place(row)}"


@rule("LP903", "note", "The published figures of a document's vendor are at hand", "published")
def published_vendor_is_installed(published: Published) -> Iterator[Violation]:
    """Without its plugin, peak, memory and dtypes of the rows are not held against anything."""
    if published.vendor not in installed_vendors():
        told = "the document names none" if published.vendor is None else "found none"
        yield (
            "/vendor",
            f"expected the plugin of vendor {shown(published.vendor)}, {told}; its devices were not checked",
        )
