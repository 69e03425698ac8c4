"""Rules on published memory and dtypes, against what the vendor publishes for the device."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.types import Text, Violation
from llmperf.validation import about, installed_vendors, shown, vendor_catalogue

from llmperf_published.rules import rule
from llmperf_published.rules.layout import place, world_size
from llmperf_published.rules.machine import Machine, dtypes_of, machine_of, rows_on_known_devices
from llmperf_published.rules.vendors import checking_vendor, is_comparison
from llmperf_published.types.document import Published, PublishedRow


@rule("LP411", "error", "Published memory is within the device's own")
def memory_within_device(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        yield from _named_memory(published, row, f"/rows/{index}/hardware/device_memory")
        memory = row.metrics.memory
        if memory is None:
            continue
        path, machine = f"/rows/{index}/metrics/memory", machine_of(published, row)
        used = max((part.each.value for part in memory.used if part.each.value is not None), default=None)
        total = memory.total.value if memory.total else None
        used, total = (None if one is None else one * _gb(memory.unit) for one in (used, total))
        if used is not None and total is not None and used > total:
            message = Text("expected at most {:g}, found {:g} in {!r}, {}", total, used, memory.text, place(row))
            yield f"{path}/used", message
        sizes = [one.memory_bytes for one in machine.devices] if machine else []
        if not sizes or None in sizes:
            continue
        named = Text("{:.4g} GiB ({})", max(filter(None, sizes)) / 2**30, _models(machine))
        if total is not None and not any(about(size, total) for size in sizes):
            yield f"{path}/total", Text("expected {}, found {:g} in {!r}, {}", named, total, memory.text, place(row))
        elif total is None and used is not None and not any(_holds(size, used) for size in sizes):
            message = Text("expected at most {}, found {:g} in {!r}, {}", named, used, memory.text, place(row))
            yield f"{path}/used", message


def _gb(unit: str | None) -> float:
    """How many GB, or GiB, one of a unit is; a figure without one is in GB."""
    prefix = (unit or "g")[0].lower()
    return {"b": 2.0**-30, "k": 2.0**-20, "m": 2.0**-10, "t": 2.0**10}.get(prefix, 1.0)


def _named_memory(published: Published, row: PublishedRow, path: str) -> Iterator[Violation]:
    """A row that says `1x8*40G` names a device that there is with 40 GB."""
    vendor = checking_vendor(published, row)
    catalogue = vendor_catalogue(vendor) if vendor else None
    name, memory = row.hardware.device, row.hardware.device_memory
    if catalogue is None or name is None or memory is None or catalogue.called(name, memory):
        return
    sizes = {round(one.memory_bytes / 2**30) for one in catalogue.called(name, None) if one.memory_bytes}
    if sizes:
        expected = Text("expected {} with {} GB", name, " or ".join(map(str, sorted(sizes))))
        yield path, Text("{}, found {} GB, {}", expected, memory, place(row))


def _holds(size: int | None, used: float) -> bool:
    return about(size, used) or used * 1e9 <= (size or 0)


def _models(machine: Machine | None) -> str:
    models = [one.model for one in machine.devices] if machine else []
    return models[0] if len(models) == 1 else Text("{} or the like", models[0])


@rule("LP412", "error", "Terms of a memory figure are those of the layout")
def memory_terms(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        memory, world = row.metrics.memory, world_size(row)
        stages = row.parallelism.pipeline_parallel or 1
        parts = memory.used if memory else ()
        path = f"/rows/{index}/metrics/memory/used"
        if len(parts) > 1 and len(parts) != stages:
            yield (
                path,
                Text("expected a term for each of {} pipeline stages, found {}, {}", stages, len(parts), place(row)),
            )
        counted = [part.devices for part in parts]
        if world and counted and all(counted) and sum(filter(None, counted)) != world:
            total = sum(filter(None, counted))
            yield path, Text("expected {} devices in all, found {} in {!r}, {}", world, total, memory.text, place(row))  # type: ignore[union-attr]


@rule("LP413", "error", "The device of a published row offers its precision")
def precision_is_offered(published: Published) -> Iterator[Violation]:
    for index, row, machine in rows_on_known_devices(published):
        offered = {dtype for device in machine.devices for dtype in machine.catalogue.precisions(device)}
        if row.precision and offered and row.precision not in offered:
            expected = Text("expected one of {} ({})", ", ".join(sorted(offered)), _models(machine))
            yield f"/rows/{index}/precision", Text("{}, found {}, {}", expected, row.precision, place(row))


@rule("LP903", "note", "The published figures of a document's vendor are at hand")
def published_vendor_is_installed(published: Published) -> Iterator[Violation]:
    known = is_comparison(published) or published.vendor in installed_vendors()
    if not known and not all(machine_of(published, row) for row in published.rows):
        told = Text("the document names none") if published.vendor is None else Text("found none")
        yield (
            "/vendor",
            Text("expected the plugin of vendor {}, {}; its devices were not checked", shown(published.vendor), told),
        )
        return
    seen: set[str] = set()
    for index, row in enumerate(published.rows):
        for path, message in _not_at_hand(published, row):
            if message not in seen:
                seen.add(message)
                yield f"/rows/{index}/{path}", Text("{}, {}", message, place(row))


def _not_at_hand(published: Published, row: PublishedRow) -> Iterator[Violation]:
    """Parts of a row whose figures cannot be checked against anything."""
    where, mfu = row.hardware, row.metrics.mfu
    vendor = checking_vendor(published, row)
    comparison = is_comparison(published)
    if machine_of(published, row) is None and (comparison or vendor_catalogue(vendor or "") is not None):
        named = shown(where.device or where.device_model or where.configuration)
        message = Text("expected a device that {} publishes, found {}; it was not checked", vendor or "a vendor", named)
        yield "hardware", message
    if mfu is None or not mfu.stated:
        return
    if row.model is None:
        yield "model", Text("expected a model that is known, found {}; its MFU was not checked", shown(row.model_text))
    if not dtypes_of(row):
        found = shown(row.precision_text)
        message = Text("expected a precision with a known peak, found {}; its MFU was not checked whole", found)
        yield "precision", message


@rule("LP623", "note", "Peaks and models of an imported document are those of installed packages")
def facts_are_installed(published: Published) -> Iterator[Violation]:
    for index, device in enumerate(published.own.devices if published.own else ()):
        entry = device.entry
        figures = ", ".join(f"{dtype} {tflops:g}" for dtype, tflops in entry.dense_tflops.items())
        found = _quoted(
            Text("{}: {} TFLOP/s ({}: {}, {})", entry.model, figures, device.file, entry.source, entry.date)
        )
        yield f"/own/devices/{index}", Text("expected a device that an installed package publishes, found {}", found)
    for index, own in enumerate(published.own.models if published.own else ()):
        found = _quoted(Text("{} ({}: {})", own.model.name, own.file, own.model.source))
        yield f"/own/models/{index}", Text("expected a model of an installed package, found {}", found)


def _quoted(text: str) -> str:
    """A text whole; `shown` cuts it off."""
    return '"' + text.replace('"', "'") + '"'
