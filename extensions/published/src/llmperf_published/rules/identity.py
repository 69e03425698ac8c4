"""Rules on the identity of published documents: vendor, accelerator, environment, models, without contradictions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmperf.types import Text, Violation
from llmperf.validation import shown, vendor_catalogue

from llmperf_published.reading.markdown import normal, withheld
from llmperf_published.reading.names import devices_called, vendors_calling, vendors_named
from llmperf_published.reading.vocabulary import setting
from llmperf_published.rules import row_rule, rule
from llmperf_published.rules.vendors import NAME, is_comparison
from llmperf_published.types.document import Entry, Published, PublishedRow

NEEDED = {
    "accelerator": ("hardware", Text("the accelerator")),
    "driver": ("software", Text("the driver's version")),
    "framework": ("software", Text("the training framework's version")),
    "os": ("software", Text("the operating system")),
}
"""Entries without which nobody can run it again: in which section, and what they are called in a message."""

FOLLOWING = ("vendor", "defaults", "strategy", "formula", "configuration_names", "datasets")
"""Fields that a document's text gives beside its tables and rows."""


@rule("LP611", "warning", "A document names one accelerator throughout")
def one_accelerator(published: Published) -> Iterator[Violation]:
    accelerators = [entry.text for _, entry in _entries(published, "accelerator") if not withheld(entry.text)]
    if not accelerators:
        return
    known = _squeezed(" ".join(accelerators))
    foreign: dict[str, list[tuple[str, int, str]]] = {}
    for path, line, text, device in _devices(published):
        if _squeezed(device) not in known:
            foreign.setdefault(device, []).append((path, line, text))
    for device, ((path, line, text), *others) in foreign.items():
        expected = Text("expected {!r}, the accelerator of the environment", accelerators[0])
        more = Text("; and {} more of this kind", len(others)) if others else ""
        yield path, Text("{}, found {} in {}, line {}{}", expected, device, shown(text), line, more)


def _devices(published: Published) -> Iterator[tuple[str, int, str, str]]:
    """Everywhere else that a device is named: pointer, line, text, device."""
    for index, section in enumerate(published.sections):
        for found in NAME.findall(normal(section.heading)):
            yield f"/sections/{index}/heading", section.line, section.heading, found
    seen = set()
    for index, name in enumerate(published.configuration_names):
        if name.device and name.text not in seen:
            seen.add(name.text)
            yield f"/configuration_names/{index}", name.line, name.text, name.device
    rows = () if is_comparison(published) else published.rows
    for index, row in enumerate(rows):
        if row.hardware.device:
            yield f"/rows/{index}/hardware/device", row.line, row.hardware.configuration or "", row.hardware.device
        if row.configuration_name and row.configuration_name.device:
            name = row.configuration_name
            yield f"/rows/{index}/configuration_name", row.line, name.text, name.device or ""


def _squeezed(text: str) -> str:
    return re.sub(r"[\W_]+", "", normal(text)).lower()


def _entries(published: Published, name: str) -> Iterator[tuple[str, Entry]]:
    for index, section in enumerate(published.sections):
        for number, entry in enumerate(section.entries):
            if entry.name == name:
                yield f"/sections/{index}/entries/{number}", entry


@rule("LP612", "error", "A document names one vendor throughout")
def one_vendor(published: Published) -> Iterator[Violation]:
    vendor, rows = published.vendor, list(enumerate(published.rows))
    if vendor is None or is_comparison(published):
        return
    named = [
        (path, entry) for name in ("accelerator", "machine", "device") for path, entry in _entries(published, name)
    ]
    texts = [(path, entry.line, entry.text) for path, entry in named]
    texts += [("/title", 1, published.title)]
    texts += [(f"/rows/{index}/hardware", row.line, row.hardware.configuration or "") for index, row in rows]
    for path, line, text in texts:
        for other in vendors_named(text) if text else ():
            if other != vendor:
                yield path, Text("expected {}, found {} in {}, line {}", vendor, other, shown(text), line)
    own = vendor_catalogue(vendor)
    described = _squeezed(" ".join(entry.text for _, entry in named if entry.name != "device"))
    owners: dict[str, str | None] = {}
    for index, row in rows:
        of_name = row.configuration_name.device if row.configuration_name else None
        for path, name in (("hardware/device", row.hardware.device), ("configuration_name/device", of_name)):
            if not name:
                continue
            if name not in owners:
                known = _squeezed(name) in described or (own is not None and devices_called(own, name))
                owners[name] = None if known else next(vendors_calling(name, vendor), None)
            if other_owner := owners[name]:
                message = Text("expected a device of {}, found {}, which is one of {}", vendor, name, other_owner)
                yield f"/rows/{index}/{path}", Text("{}, {}", message, Text("line {}", row.line))


@row_rule("LP613", "warning", "The environment names the accelerator of each row")
def accelerator_of_each_row(published: Published, row: PublishedRow) -> Iterator[Violation]:
    accelerators = [entry.text for _, entry in _entries(published, "accelerator")]
    sizes = {int(one) for text in accelerators for one in re.findall(r"(?<!\d)(\d{2,3})\s?G", normal(text))}
    memory = row.hardware.device_memory
    if sizes and memory and memory not in sizes:
        expected = Text("expected {} GB ({!r})", " or ".join(map(str, sorted(sizes))), accelerators[0])
        yield "hardware/device_memory", Text("{}, found {} GB", expected, memory)


@rule("LP614", "warning", "The environment is complete")
def environment_is_complete(published: Published) -> Iterator[Violation]:
    if not any(section.kind in ("hardware", "software") for section in published.sections):
        yield "/sections", Text("expected sections on hardware and software, found none")
        return
    for name, (section, called) in NEEDED.items():
        entry = published.entry(name, section)  # type: ignore[arg-type]
        if entry is None or withheld(entry.text):
            found = Text("none") if entry is None else Text("{}, line {}", shown(entry.text), entry.line)
            yield "/sections", Text("expected {} in the {} environment, found {}", called, section, found)


@rule("LP615", "warning", "The data set is the same wherever it is named")
def one_dataset(published: Published) -> Iterator[Violation]:
    names = [re.sub(r"data(?:set)?$", "", _squeezed(one.text)) for one in published.datasets]
    for index, one in enumerate(published.datasets):
        if names[index] != names[0]:
            first = published.datasets[0]
            expected = Text("expected {}, as in line {}", shown(first.text), first.line)
            yield f"/datasets/{index}", Text("{}, found {}, line {}", expected, shown(one.text), one.line)


@row_rule("LP616", "note", "A claim that losses are aligned comes with the losses")
def alignment_can_be_checked(_: Published, row: PublishedRow) -> Iterator[Violation]:
    if row.metrics.aligned:
        yield "metrics/aligned", Text("expected the losses of each step to hold it against, found none")


@rule("LP617", "note", "Everything in the document is understood")
def all_understood(published: Published) -> Iterator[Violation]:
    for index, one in enumerate(published.unread):
        yield f"/unread/{index}", Text("{}, found {}, line {}", Text.read(one.reason), shown(one.text), one.line)


@row_rule("LP618", "warning", "Every departure from the case is listed in fix_hp")
def departures_are_told(_: Published, row: PublishedRow) -> Iterator[Violation]:
    for number, change in enumerate(row.fix_hp):
        if change.origin == "batch defaults":
            was = shown(change.case_value)
            expected = Text("expected {} {} (case {}) or an entry in fix_hp", change.path, was, row.case)
            yield f"fix_hp/{number}", Text("{}, found {} by default", expected, shown(change.value))


@row_rule("LP619", "warning", "A row's fix_hp changes something")
def nothing_else_in_fix_hp(published: Published, row: PublishedRow) -> Iterator[Violation]:
    named = {setting(name) for name in row.options}
    for name, origin in row.batch.origins.items():
        value = getattr(row.batch, name)
        if origin == "fix_hp" and name in named and value == getattr(published.defaults, name):
            expected = Text("expected a value other than the document's default {}", value)
            yield "fix_hp_text", Text("{}, found {}={}", expected, name, value)


@row_rule("LP621", "error", "A changed contract makes a published row a variant")
def published_variant(_: Published, row: PublishedRow) -> Iterator[Violation]:
    changed = [one.path for one in row.fix_hp if one.contract]
    if row.variant != bool(changed):
        because = Text("fix_hp changes {}", changed[0]) if changed else Text("fix_hp changes nothing of the contract")
        expected, found = (str(one).lower() for one in (bool(changed), row.variant))
        yield "variant", Text("expected {} ({}), found {}", expected, because, found)


@rule("LP622", "error", "An imported document is what its text gives")
def document_is_that_of_its_text(published: Published) -> Iterator[Violation]:
    from llmperf_published.rules.imported import imported_again

    if not published.rows:
        yield "/rows", Text("expected a result, as every document that is imported has, found none")
        return
    again = imported_again(published)
    for name in FOLLOWING:
        yield from _difference(f"/{name}", getattr(again, name), getattr(published, name), Text("its text"))
    for name in ("sections", "tables"):
        for index, (part, found) in enumerate(zip(getattr(again, name), getattr(published, name), strict=True)):
            yield from _difference(f"/{name}/{index}", part, found, Text("the text of line {}", found.line))
    if len(again.rows) != len(published.rows):
        yield "/rows", Text("expected {}, as the tables have, found {}", len(again.rows), len(published.rows))
        return
    for index, (row, now) in enumerate(zip(again.rows, published.rows, strict=True)):
        for name in row.__dataclass_fields__:
            cells = Text("the cells of line {}", now.line)
            yield from _difference(f"/rows/{index}/{name}", getattr(row, name), getattr(now, name), cells)


def _difference(path: str, expected: object, found: object, source: str) -> Iterator[Violation]:
    """The innermost field in which two values of one type differ."""
    while expected != found:
        parts: Iterator[tuple[str | int, object, object]] = iter(())
        if isinstance(expected, tuple) and isinstance(found, tuple) and len(expected) == len(found):
            parts = ((index, was, now) for index, (was, now) in enumerate(zip(expected, found, strict=True)))
        elif found is not None:
            names = getattr(expected, "__dataclass_fields__", ())
            parts = ((name, getattr(expected, name), getattr(found, name, None)) for name in names)
        inner = next((part for part in parts if part[1] != part[2]), None)
        if inner is None:
            right, wrong = (
                shown(one if one is None or isinstance(one, (str, int, float, tuple, dict)) else type(one).__name__)
                for one in (expected, found)
            )
            yield path, Text("expected {} by {}, found {}", right, source, wrong)
            return
        path, expected, found = f"{path}/{inner[0]}", inner[1], inner[2]
