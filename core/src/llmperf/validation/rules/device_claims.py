"""Checks of what a result or a plan states of its devices against itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf.types import Result, Text, Violation
from llmperf.validation.reading import shown
from llmperf.validation.violations import figure, rule

if TYPE_CHECKING:
    from llmperf.types import Plan

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
    """FLOP/s, bytes/s and FLOPs a joule of a device are below what any device reaches."""
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
    """No two probed devices have one UUID."""
    first: dict[str, int] = {}
    for place, device in enumerate(plan.probe.devices):
        if device.uuid is not None and first.setdefault(device.uuid, place) != place:
            expected = Text("expected a UUID other than that of device {}", first[device.uuid])
            yield f"/probe/devices/{place}/uuid", Text("{}, found {}", expected, shown(device.uuid))


@rule("LP664", "warning", "A device is busy while it computes")
def busy_while_computing(result: Result) -> Iterator[Violation]:
    """The utilisation that the vendor's tool showed is not far below the MFU that leaves nothing out of the model."""
    metrics, found = result.metrics, result.metrics.utilisation_percent
    if found is None or result.hardware.divided or (metrics.window_seconds or 0.0) < LONG_SECONDS:
        return
    shares = [mfu.value for mfu in result.mfu if mfu.value is not None and mfu.convention == "causal"]
    if shares and found < BUSY_SHARE * 100 * shares[0]:
        expected = Text("expected at least {} (the share of the peak that was computed)", figure(100 * shares[0]))
        yield "/metrics/utilisation_percent", Text("{}, found {}", expected, figure(found))


@rule("LP210", "warning", "Energy fits the power readings and the work")
def energy_is_plausible(result: Result) -> Iterator[Violation]:
    """Energy is about mean power x devices x window, and enough for the FLOPs that were computed."""
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
