"""Rules on published memory and dtypes, against what the vendor publishes for the device."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.types import Text, Violation
from llmperf.validation import about, installed_vendors, shown, vendor_catalogue

from llmperf_published.reading.names import devices_called
from llmperf_published.rules import row_rule, rule
from llmperf_published.rules.machine import Machine, machine_of
from llmperf_published.rules.vendors import checking_vendor, is_comparison
from llmperf_published.types.document import Published, PublishedRow

GIB = {"b": 2.0**-30, "k": 2.0**-20, "m": 2.0**-10, "t": 2.0**10}
"""GB, or GiB, in one of a unit, by the first letter of the unit; a figure without a unit is in GB."""


@row_rule("LP411", "error", "Published memory is within the device's own")
def memory_within_device(published: Published, row: PublishedRow) -> Iterator[Violation]:
    vendor, name, memory = checking_vendor(published, row), row.hardware.device, row.hardware.device_memory
    catalogue = vendor_catalogue(vendor) if vendor else None
    if (
        catalogue is not None
        and name is not None
        and memory is not None
        and not devices_called(catalogue, name, memory)
    ):
        known = {round(one.memory_bytes / 2**30) for one in devices_called(catalogue, name) if one.memory_bytes}
        if known:
            expected = Text("expected {} with {} GB", name, " or ".join(map(str, sorted(known))))
            yield "hardware/device_memory", Text("{}, found {} GB", expected, memory)
    printed, machine = row.metrics.memory, machine_of(published, row)
    if printed is None:
        return
    unit = GIB.get((printed.unit or "g")[0].lower(), 1.0)
    used = max((part.each.value * unit for part in printed.used if part.each.value is not None), default=None)
    total = None if printed.total is None or printed.total.value is None else printed.total.value * unit
    if used is not None and total is not None and used > total:
        yield "metrics/memory/used", Text("expected at most {:g}, found {:g} in {!r}", total, used, printed.text)
    sizes = [one.memory_bytes for one in machine.devices] if machine else []
    if machine is None or not sizes or None in sizes:
        return
    own = Text("{:.4g} GiB ({})", max(filter(None, sizes)) / 2**30, _models(machine))
    if total is not None and not any(about(size, total) for size in sizes):
        yield "metrics/memory/total", Text("expected {}, found {:g} in {!r}", own, total, printed.text)
    elif total is None and used is not None and not any(about(one, used) or used * 1e9 <= (one or 0) for one in sizes):
        yield "metrics/memory/used", Text("expected at most {}, found {:g} in {!r}", own, used, printed.text)


def _models(machine: Machine) -> str:
    first, *others = (one.model for one in machine.devices)
    return Text("{} or the like", first) if others else first


@row_rule("LP412", "error", "Terms of a memory figure are those of the layout")
def memory_terms(_: Published, row: PublishedRow) -> Iterator[Violation]:
    memory, world, stages = row.metrics.memory, row.hardware.world_size, row.parallelism.pipeline_parallel or 1
    if memory is None:
        return
    if len(memory.used) > 1 and len(memory.used) != stages:
        message = Text("expected a term for each of {} pipeline stages, found {}", stages, len(memory.used))
        yield "metrics/memory/used", message
    counted = [part.devices for part in memory.used]
    total = sum(filter(None, counted))
    if world and counted and all(counted) and total != world:
        yield "metrics/memory/used", Text("expected {} devices in all, found {} in {!r}", world, total, memory.text)


@row_rule("LP413", "error", "The device of a published row offers its precision")
def precision_is_offered(published: Published, row: PublishedRow) -> Iterator[Violation]:
    machine = machine_of(published, row)
    if machine is not None and row.precision:
        offered = {dtype for device in machine.devices for dtype in machine.catalogue.precisions(device)}
        if offered and row.precision not in offered:
            expected = Text("expected one of {} ({})", ", ".join(sorted(offered)), _models(machine))
            yield "precision", Text("{}, found {}", expected, row.precision)


@rule("LP903", "note", "The published figures of a document's vendor are at hand")
def published_vendor_is_installed(published: Published) -> Iterator[Violation]:
    known = is_comparison(published) or published.vendor in installed_vendors()
    if not known and not all(machine_of(published, row) for row in published.rows):
        told = Text("the document names none") if published.vendor is None else Text("found none")
        vendor = shown(published.vendor)
        yield "/vendor", Text("expected the plugin of vendor {}, {}; its devices were not checked", vendor, told)
        return
    seen: set[str] = set()
    for index, row in enumerate(published.rows):  # what else was not checked, and why, is in the verdict on each row
        where, whose = row.hardware, checking_vendor(published, row)
        named = shown(where.device or where.device_model or where.configuration)
        installed = is_comparison(published) or vendor_catalogue(whose or "") is not None
        if installed and machine_of(published, row) is None and named not in seen:
            seen.add(named)
            by = whose or "a vendor"
            message = Text("expected a device that {} publishes, found {}; it was not checked", by, named)
            yield f"/rows/{index}/hardware", Text("{}, {}", message, Text("line {}", row.line))


@rule("LP623", "note", "Peaks and models of an imported document are those of installed packages")
def facts_are_installed(published: Published) -> Iterator[Violation]:

    def quoted(text: str) -> str:  # whole; `shown` cuts it off
        return '"' + text.replace('"', "'") + '"'

    for index, device in enumerate(published.own.devices if published.own else ()):
        entry = device.entry
        figures = ", ".join(f"{dtype} {tflops:g}" for dtype, tflops in entry.dense_tflops.items())
        named = Text("{}: {} TFLOP/s ({}: {}, {})", entry.model, figures, device.file, entry.source, entry.date)
        found = Text("expected a device that an installed package publishes, found {}", quoted(named))
        yield f"/own/devices/{index}", found
    for index, own in enumerate(published.own.models if published.own else ()):
        named = Text("{} ({}: {})", own.model.name, own.file, own.model.source)
        yield f"/own/models/{index}", Text("expected a model of an installed package, found {}", quoted(named))
