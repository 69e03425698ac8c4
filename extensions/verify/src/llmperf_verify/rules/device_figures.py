"""Claims of a result about its devices, against itself and against the vendor's installed plugin."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.accounting import products_dtype
from llmperf.errors import LlmperfError
from llmperf.types import DeviceInfo, Result, Text, Violation
from llmperf.types.devices import normalised
from llmperf.validation import (
    MEMORY_SLACK,
    VendorCatalogue,
    about,
    close,
    deviates,
    figure,
    given_peak,
    installed,
    installed_vendors,
    is_own,
    printable,
    rule,
    shown,
    vendor_catalogue,
    vendor_trouble,
)

if TYPE_CHECKING:
    from llmperf.types import Plan


def published_device(result: Result) -> tuple[VendorCatalogue, DeviceInfo] | None:
    """The device as its vendor publishes it; None where the plugin is not installed or does not know the device."""
    catalogue = vendor_catalogue(result.hardware.vendor)
    device = catalogue.exact(result.hardware.device_model) if catalogue else None
    return (catalogue, device) if catalogue and device else None


@rule("LP307", "error", "A peak is the named device's own")
def peak_of_the_device(result: Result) -> Iterator[Violation]:
    if (known := published_device(result)) is None:
        return
    peak = known[0].peak(known[1], products_dtype(result.contract))
    for index, mfu in enumerate(result.mfu):
        path, found = f"/mfu/{index}/peak_flops_per_second", mfu.peak_flops_per_second
        if peak is None and found is not None:
            none = Text("expected null, {} has no published {} peak", known[1].model, products_dtype(result.contract))
            yield path, Text("{}, found {}", none, figure(found))
        elif peak is not None and found is not None:
            expected = peak.flops_per_second * result.hardware.device_share
            yield from deviates(path, found, expected, Text("{}, {}", known[1].model, products_dtype(result.contract)))


@rule("LP308", "error", "A rank's share of a device is what planning gives it", "result", "plan")
def share_of_the_device(document: Result | Plan) -> Iterator[Violation]:
    device: DeviceInfo | None
    if isinstance(document, Result):
        hardware, known = document.hardware, published_device(document)
        path, found, ranks = "/hardware/device_share", hardware.device_share, hardware.devices_per_node
        device = known[1] if known else None
    else:
        path, found, ranks = "/device_share", document.device_share, document.layout.devices_per_node
        device, catalogue = next(iter(document.probe.devices), None), vendor_catalogue(document.vendor)
        device = (catalogue.exact(device.model) if catalogue and device else None) or device
    divisible, each = None if device is None else device.divisible, 1 / ranks
    shares = [one for one, possible in ((1.0, divisible is not True), (each, divisible is not False)) if possible]
    if not any(close(found, one) for one in shares):
        whole = {None: "1 or ", True: "", False: Text("1 (the device cannot be divided)")}[divisible]
        divided = "" if divisible is False else Text("{} (1 / {} ranks on each node)", figure(each), ranks)
        yield path, Text("expected {}{}, found {}", whole, divided, figure(found))


@rule("LP309", "error", "A vendor with a catalogue has a peak for no other device")
def peak_of_no_other_device(result: Result) -> Iterator[Violation]:
    catalogue, model = vendor_catalogue(result.hardware.vendor), result.hardware.device_model
    if catalogue is None or catalogue.exact(model) is not None:
        return
    try:
        if catalogue.plugins.peak(model, products_dtype(result.contract)) is not None:
            return
    except LlmperfError:  # the name comes from a document and can be anything
        return
    for index, mfu in enumerate(result.mfu):
        if mfu.peak_flops_per_second is not None:
            because = Text("{}'s installed plugin publishes no device {}", catalogue.vendor, shown(model))
            path = f"/mfu/{index}/peak_flops_per_second"
            yield path, Text("expected null, {}, found {}", because, figure(mfu.peak_flops_per_second))


@rule("LP324", "error", "A peak is the one that the vendor gives, or was measured")
def peak_is_given_or_measured(result: Result) -> Iterator[Violation]:
    vendor, model, dtype = result.hardware.vendor, result.hardware.device_model, products_dtype(result.contract)
    stated = [(index, mfu) for index, mfu in enumerate(result.mfu) if mfu.peak_flops_per_second is not None]
    unmeasured = [(index, mfu) for index, mfu in stated if mfu.peak_confidence != "measured"]
    if not unmeasured or vendor not in installed_vendors() or published_device(result) is not None:
        return  # LP307 checks published devices
    try:
        peak = given_peak(vendor, model, dtype)
    except LlmperfError:  # the name comes from a document and can be anything
        return
    index, mfu = unmeasured[0]
    if isinstance(peak, str):
        if vendor_catalogue(vendor) is None:  # otherwise LP309
            expected = Text("measured ({})", peak)
            message = Text("expected {}, found {}", expected, mfu.peak_confidence or "null")
            yield f"/mfu/{index}/peak_confidence", message
    elif mfu.peak_flops_per_second is not None:
        flops = peak.flops_per_second * result.hardware.device_share
        path = f"/mfu/{index}/peak_flops_per_second"
        yield from deviates(path, mfu.peak_flops_per_second, flops, Text("as its vendor gives"))


@rule("LP407", "error", "Total memory is the named device's own")
def memory_of_the_device(result: Result) -> Iterator[Violation]:
    known = published_device(result)
    if known is None or (size := known[1].memory_bytes) is None:
        return
    for path, found in (
        ("/hardware/device_memory_bytes", result.hardware.device_memory_bytes),
        ("/metrics/device_memory_total_bytes", result.metrics.device_memory_total_bytes),
    ):
        if found is not None and not about(size, found / 2**30):
            expected = Text("expected {} within {:.0f} % ({})", size, 100 * MEMORY_SLACK, known[1].model)
            yield path, Text("{}, found {}", expected, found)


@rule("LP408", "error", "The device offers the precision")
def precision_of_the_device(result: Result) -> Iterator[Violation]:
    if (known := published_device(result)) is None:
        return
    offered, found = known[0].precisions(known[1]), products_dtype(result.contract)
    if offered and found not in offered and not result.emulated:
        message = Text("expected one of {} ({}), found {}", ", ".join(offered), known[1].model, found)
        yield "/contract/precision", message


@rule("LP608", "error", "A result is of one vendor throughout")
def one_vendor(result: Result) -> Iterator[Violation]:
    vendor, ran = result.hardware.vendor, [one.name for one in result.plugins if one.role == "vendor"]
    if ran and vendor not in ran:
        message = Text("expected {}, the vendor plugin that ran, found {}", shown(ran[0]), shown(vendor))
        yield "/hardware/vendor", message
    if published_device(result) is None:
        for other in other_owners(result.hardware.device_model, vendor):
            model = shown(result.hardware.device_model)
            yield "/hardware/device_model", Text("expected a device of {}, found {} of {}", vendor, model, other)


def other_owners(model: str, vendor: str) -> Iterator[str]:
    """Installed vendors, other than the given one, that publish a device of exactly that name.

    A vendor of this project whose peak table does not have the name is not imported; those of others may have their
    catalogues elsewhere.
    """
    for found in sorted(installed(), key=lambda found: found.name):
        if found.role != "vendor" or found.name == vendor:
            continue
        table = _peak_table(found.module.partition(".")[0]) if is_own(found.distribution) else None
        if table is not None and normalised(model, found.name) not in table:
            continue
        other = vendor_catalogue(found.name)
        if other is not None and other.exact(model) is not None:
            yield found.name


@cache
def _peak_table(package: str) -> str | None:
    """The peak table of a vendor of this project as one name; empty without one, None if it cannot be read."""
    try:
        spec = find_spec(package)
        table = Path(str(spec and spec.origin)).with_name("data") / "peaks.toml"
        return normalised(table.read_text("utf-8"), "")
    except FileNotFoundError:  # no table, no catalogue
        return ""
    except (ImportError, OSError, ValueError):
        return None


@rule("LP609", "warning", "The environment of a measured result is complete")
def environment_is_complete(result: Result) -> Iterator[Violation]:
    if result.hardware.simulated:
        return
    if result.hardware.driver is None and vendor_catalogue(result.hardware.vendor) is not None:
        yield "/hardware/driver", Text("expected the version of {}'s driver, found null", result.hardware.vendor)
    if result.status == "complete" and not result.software.packages:
        yield "/software/packages", Text("expected what the ranks ran with, found none")


@rule("LP902", "warning", "The vendor's published figures are at hand where a peak depends on them")
def vendor_is_installed(result: Result) -> Iterator[Violation]:
    if result.hardware.vendor not in installed_vendors() and any(mfu.peak_flops_per_second for mfu in result.mfu):
        name = shown(result.hardware.vendor)
        yield "/hardware/vendor", Text("expected the plugin of vendor {}, found none; the peak was not checked", name)


@rule("LP904", "warning", "An installed vendor's plugin can be asked", "result", "plan")
def vendor_can_be_asked(document: Result | Plan) -> Iterator[Violation]:
    if isinstance(document, Result):
        vendor, path = document.hardware.vendor, "/hardware/vendor"
    else:
        vendor, path = document.vendor, "/vendor"
    if (why := vendor_trouble(vendor)) is not None:
        expected = Text("expected a plugin that says what it publishes; its devices were not checked")
        yield path, Text("{}: {}", expected, printable(why)[:200])


BUSY_SHARE = 0.7
"""Least busy share of a device by its MFU. Tools average over a second or more, and count late."""
LONG_SECONDS = 10.0
"""The shortest window whose readings are compared with MFU: at least ten readings."""
POWER_SLACK = 0.25
"""Energy by a counter and the mean of power readings may differ by this part of the energy."""
MOST_FLOP_PER_JOULE = 1e13
"""No device of 2026 computes more for a joule, in any dtype."""

IMPOSSIBLE_FLOP_PER_JOULE = 1e15
IMPOSSIBLE_FLOPS = 1e18
"""Per device: a hundred times and more what the best devices of 2026 do, so that no new device is refused."""


@rule("LP325", "error", "The rates of a device are possible")
def possible_rates(result: Result) -> Iterator[Violation]:
    measured = result.measured_peak
    product = None if measured is None else measured.flops_per_second
    rates = [("/measured_peak/flops_per_second", product, IMPOSSIBLE_FLOPS, "FLOP/s")]
    peak = next((mfu.peak_flops_per_second for mfu in result.mfu if mfu.peak_flops_per_second is not None), None)
    rates.append(("/mfu/0/peak_flops_per_second", peak, IMPOSSIBLE_FLOPS, "FLOP/s"))
    joules = result.metrics.joules_per_token
    causal = next((mfu.flops_per_token for mfu in result.mfu if mfu.convention == "causal"), None)
    each = None if not joules or causal is None else causal / joules
    rates.append(("/metrics/joules_per_token", each, IMPOSSIBLE_FLOP_PER_JOULE, "FLOPs a joule"))
    for path, found, most, unit in rates:
        if found is not None and found > most:
            yield path, Text("expected at most {:g} {}, which no device reaches, found {}", most, unit, figure(found))


@rule("LP663", "error", "Each device has a UUID of its own", "plan")
def own_uuids(plan: Plan) -> Iterator[Violation]:
    first: dict[str, int] = {}
    for place, device in enumerate(plan.probe.devices):
        if device.uuid is not None and first.setdefault(device.uuid, place) != place:
            expected = Text("expected a UUID other than that of device {}", first[device.uuid])
            yield f"/probe/devices/{place}/uuid", Text("{}, found {}", expected, shown(device.uuid))


@rule("LP664", "warning", "A device is busy while it computes")
def busy_while_computing(result: Result) -> Iterator[Violation]:
    metrics, found = result.metrics, result.metrics.utilisation_percent
    if found is None or result.hardware.divided or (metrics.window_seconds or 0.0) < LONG_SECONDS:
        return
    shares = [mfu.value for mfu in result.mfu if mfu.value is not None and mfu.convention == "causal"]
    if shares and found < BUSY_SHARE * 100 * shares[0]:
        expected = Text("expected at least {} (the share of the peak that was computed)", figure(100 * shares[0]))
        yield "/metrics/utilisation_percent", Text("{}, found {}", expected, figure(found))


@rule("LP210", "warning", "Energy fits the power readings and the work")
def energy_is_plausible(result: Result) -> Iterator[Violation]:
    metrics = result.metrics
    energy, window, power = metrics.energy_joules, metrics.window_seconds, metrics.power_watts
    if not energy or not window:
        return
    devices = result.parallelism.nodes * result.parallelism.devices_per_node * result.hardware.device_share
    drawn = None if power is None else power * devices * window
    if drawn is not None and abs(drawn - energy) > POWER_SLACK * energy:
        because = Text(
            "{} W x {} devices x {} s, within {:.0%}", figure(power), figure(devices), figure(window), POWER_SLACK
        )
        yield "/metrics/energy_joules", Text("expected {} ({}), found {}", figure(drawn), because, figure(energy))
    causal = next((mfu for mfu in result.mfu if mfu.convention == "causal"), None)
    each = 0.0 if causal is None else causal.flops_per_token * metrics.measured_tokens / energy
    if each > MOST_FLOP_PER_JOULE:
        expected = Text("expected at most {:g} FLOPs a joule, which no device reaches", MOST_FLOP_PER_JOULE)
        yield "/metrics/energy_joules", Text("{}, found {}", expected, figure(each))


@rule("LP208", "error", "Joules per token are energy / tokens, and tokens per joule the other way round")
def energy_per_token(result: Result) -> Iterator[Violation]:
    metrics = result.metrics
    energy, tokens = metrics.energy_joules, metrics.measured_tokens
    if energy is None or not tokens:
        for name in ("joules_per_token", "tokens_per_joule"):
            if (found := getattr(metrics, name)) is not None:
                yield f"/metrics/{name}", Text("expected null (no energy or no tokens), found {}", figure(found))
        return
    if not energy:
        return
    for name, expected in (("joules_per_token", energy / tokens), ("tokens_per_joule", tokens / energy)):
        if (found := getattr(metrics, name)) is not None:
            because = Text("{} J, {} tokens", figure(energy), tokens)
            yield from deviates(f"/metrics/{name}", found, expected, because)
