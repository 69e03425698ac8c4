"""Checks of the readings that the sampler takes about once a second."""

from __future__ import annotations

import math
import statistics
import time

from llmperf.measuring.sampler import checked
from llmperf.types import DeviceSample

from llmperf_testing.check import ContractError, Skip, check, require
from llmperf_testing.checks.probe import probe_has_its_shape, probe_survives_a_bare_machine
from llmperf_testing.vendor import VendorSubject

CHEAP_SECONDS = 0.5
"""Half of the second between two readings."""
READINGS = 3
HOTTEST_CELSIUS = 200
ENERGY_SECONDS = 0.5
ENERGY_TRIES = 3
ENERGY_FACTOR = 1.5
"""Power is often the mean of the last second, and energy is counted in steps."""
MOST_WATTS = 20_000
"""Ten times what the hungriest device on sale draws."""


@check(probe_has_its_shape)
def readings_have_their_shape(subject: VendorSubject) -> None:
    """`llmperf_query_memory` gives one DeviceSample for each index it is asked for, in that order."""
    given, asked = subject.readings(), [one.index for one in subject.devices_here()]
    if not isinstance(given, tuple) or not all(isinstance(one, DeviceSample) for one in given):
        raise ContractError(f"expected a tuple of DeviceSample, found {given!r}"[:300])
    try:
        checked(given)  # as the sampler does, which drops what cannot be recorded
    except (TypeError, ValueError) as error:
        raise ContractError(f"it cannot be recorded: {error}") from None
    indexes = [one.index for one in given]
    require(indexes == asked, f"asked for {asked}, found {indexes}")


@check(readings_have_their_shape)
def readings_are_plausible(subject: VendorSubject) -> None:
    """No more memory is used than there is, and the device that was probed has as much; shares are at most 100 %."""
    for device, one in zip(subject.devices_here(), subject.readings(), strict=True):
        where = f"device {one.index}"
        used, total = one.memory_used_bytes, one.memory_total_bytes
        if total is not None:
            require(total > 0, f"{where}: memory_total_bytes is 0; unknown is None")
            require(used is None or used <= total, f"{where}: {used} of {total} bytes are used")
            likely = device.memory_bytes is None or 0.5 < total / device.memory_bytes < 2 or device.kind == "cpu"
            require(likely, f"{where}: {total} bytes here, {device.memory_bytes} in the probe")
        percent, celsius, watts = one.utilisation_percent, one.temperature_celsius, one.power_watts
        require(percent is None or 0 <= percent <= 100, f"{where}: utilisation of {percent} %")
        require(watts is None or watts < MOST_WATTS, f"{where}: {watts} W; are these milliwatts?")
        require(celsius is None or -50 < celsius < HOTTEST_CELSIUS, f"{where}: {celsius} degrees Celsius")


@check(probe_survives_a_bare_machine)
def readings_never_raise(subject: VendorSubject) -> None:
    """Asked on a bare machine, for a device that is not there or for none, it raises nothing."""
    errors = subject.fresh.reading_errors
    require(not errors, f"llmperf_query_memory, {errors[0] if errors else ''}; expected samples with None")


@check(readings_have_their_shape)
def readings_are_cheap(subject: VendorSubject) -> None:
    """A reading takes less than half a second."""
    seconds = []
    for number in range(1, READINGS + 1):
        began = time.perf_counter()
        subject.readings(number)
        seconds.append(time.perf_counter() - began)
    typical = statistics.median(seconds)
    require(typical < CHEAP_SECONDS, f"a reading takes {typical:.2f} s; expected less than {CHEAP_SECONDS}")


@check(readings_have_their_shape)
def readings_repeat(subject: VendorSubject) -> None:
    """Between two readings a device keeps its memory, and its energy counter does not fall."""
    for before, after in zip(subject.readings(), subject.readings("again"), strict=True):
        totals = (before.memory_total_bytes, after.memory_total_bytes)
        require(totals[0] == totals[1], f"device {before.index}: first {totals[0]} bytes in all, then {totals[1]}")
        counted = (before.energy_joules, after.energy_joules)
        fell = counted[0] is not None and counted[1] is not None and counted[1] < counted[0]
        require(not fell, f"device {before.index}: energy_joules fell from {counted[0]} to {counted[1]}")


@check(readings_repeat)
def power_agrees_with_energy(subject: VendorSubject) -> None:
    """Where it shows both, the energy counter grows by about the power drawn times the seconds between."""
    if all(one.energy_joules is None or one.power_watts is None for one in subject.readings()):
        raise Skip("it shows no power, or no energy")
    worst = [_energy_share(subject, number) for number in range(ENERGY_TRIES)]
    nearest = min(worst, key=lambda share: abs(math.log(share)))
    near = 1 / ENERGY_FACTOR < nearest < ENERGY_FACTOR
    require(near, f"energy_joules grew {nearest:.2f} times as fast as power_watts says")


def _energy_share(subject: VendorSubject, number: int) -> float:
    """Energy counted / power x time over ENERGY_SECONDS, of the device with the highest share."""
    before, began = subject.readings(("energy", number, 0)), time.perf_counter()
    time.sleep(ENERGY_SECONDS)
    after, ended = subject.readings(("energy", number, 1)), time.perf_counter()
    shares = [1e-9]
    for first, last in zip(before, after, strict=True):
        if None in (known := (first.energy_joules, last.energy_joules, first.power_watts, last.power_watts)):
            continue
        watts = (known[2] + known[3]) / 2
        shares.append((known[1] - known[0]) / max(1e-9, watts * (ended - began)))
    return max(shares)
