"""Hook answers of a vendor whose devices one description covers: peak table, tool, visibility variable, runtimes.

A run uses the devices of one model that the visibility variable allows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from llmperf.types.devices import DeviceInfo, DeviceSample, Dtype, Offers, PeakFlops, Probe
from llmperf.types.plan import Plan
from llmperf.types.rates import DeviceRates

from llmperf_vendorkit.readings import Inventory
from llmperf_vendorkit.tables import PeakEntry, PeakTable, RateTable


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorVendor:
    """Facts of a vendor plugin about its devices; each method answers one hook."""

    name: str
    """Name of the vendor plugin."""
    peaks: Path
    """The table `peaks.toml`."""
    rates: Path | None = None
    """The table `rates.toml`, if there is one."""
    inventory: Callable[[], Inventory]
    """Reads every device of this node. OSError, one line, where the driver or its tool gives no answer."""
    readings: Callable[[], Inventory] | None = None
    """A cheaper way to read the figures that change, about once a second; `inventory` if left out. Same errors."""
    variable: str
    """The visibility variable of the runtime, such as `ACME_VISIBLE_DEVICES`."""
    allowed: Callable[[Sequence[DeviceInfo]], Sequence[DeviceInfo]] | None = None
    """Function that chooses the devices which the environment allows, where that is more than one variable."""
    runtimes: tuple[str, ...]
    """Tensor libraries for which devices can be bound."""
    collective_backend: str
    """By which ranks talk."""
    unknown_model: str
    """Model of a device whose name is not shown, such as `unknown Acme device`."""
    torch_extension: str | None = None
    """Module that adds the devices to torch; plans for devices that are here are refused where it is not installed."""

    def table(self) -> PeakTable:
        """The peak table, read once."""
        return _table(self.peaks, self.name)

    def offers(self, entry: PeakEntry | None) -> Offers:
        """Offers of a device: the precisions of its entry, or fp32 alone without one."""
        return Offers(
            precisions=(entry.precisions if entry else ()) or ("fp32",),
            runtimes=self.runtimes,
            collective_backend=self.collective_backend,
        )

    def catalogue(self) -> list[Probe]:
        """`llmperf_catalogue`: one simulated device for each entry of the table."""
        return self.table().catalogue(self.offers)

    def peak_flops(self, device_model: str, dtype: Dtype) -> PeakFlops | None:
        """`llmperf_peak_flops`: the table's figure for exactly this model; None where it has none."""
        return self.table().peak_flops(device_model, dtype)

    def device_rates(self, device_model: str) -> DeviceRates | None:
        """`llmperf_device_rates`: what the vendor assumes of this model; None where it has no assumption."""
        return None if self.rates is None else _rates(self.rates, self.peaks, self.name).device_rates(device_model)

    def probe(self) -> Probe:
        """`llmperf_probe`: the devices of one model that are shown and allowed.

        `problems` has a line for each device or row that is left out, or says why there is no device.
        """
        try:
            inventory = self.inventory()
        except OSError as error:
            return Probe(vendor=self.name, devices=(), offers=self.offers(None), problems=(str(error),))
        devices = [reading.device(self.unknown_model) for reading in inventory.readings]
        allow = self.allowed or (lambda shown: visible_devices(shown, os.environ.get(self.variable)))
        return probe_of(
            allow(devices),
            vendor=self.name,
            variable=self.variable,
            offers=self._offers_here,
            shown=len(devices),
            driver=inventory.driver,
            simulated=inventory.simulated,
            problems=inventory.problems,
        )

    def _offers_here(self, device: DeviceInfo | None) -> Offers:
        offers = self.offers(self.table().find(device.model) if device else None)
        if device is None or self.torch_extension is None or find_spec(self.torch_extension) is not None:
            return offers
        reason = f"{self.torch_extension}, through which torch uses the devices, is not installed"
        return replace(offers, runtime_problems={"torch": reason})

    def samples(self, devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
        """`llmperf_query_memory`: one reading of each device; figures are None where the tool gives no answer."""
        try:
            inventory = (self.readings or self.inventory)()
        except OSError:
            return samples_by_index(devices, ())
        return samples_by_index(devices, [reading.sample() for reading in inventory.readings])

    def worker_env(self, plan: Plan) -> dict[str, str]:
        """`llmperf_worker_env`: the visibility variable, where the planned devices are not simply the first ones."""
        return visibility_variable(plan, self.variable)


@cache
def _table(path: Path, vendor: str) -> PeakTable:
    return PeakTable.read(path, vendor=vendor)


@cache
def _rates(path: Path, peaks: Path, vendor: str) -> RateTable:
    return RateTable.read(path, _table(peaks, vendor))


def probe_of(
    allowed: Sequence[DeviceInfo],
    *,
    vendor: str,
    variable: str,
    offers: Callable[[DeviceInfo | None], Offers],
    shown: int,
    driver: str | None = None,
    simulated: bool = False,
    problems: Sequence[str] = (),
) -> Probe:
    """A probe with the allowed devices of one model.

    `offers` is asked for the first device, or for None without devices. `shown` counts the devices before `variable`
    was applied; where none is left, a line says whether there were none or the variable hides them.
    """
    devices, others = of_one_model(allowed, variable)
    lines = [*problems, *others]
    if shown and not devices:
        lines.append(f"{variable} hides all devices that are shown ({shown})")
    elif not shown and not lines:
        lines.append("the management tool shows no device")
    if not devices:
        return Probe(vendor=vendor, devices=(), offers=offers(None), problems=tuple(lines))
    return Probe(
        vendor=vendor,
        devices=devices,
        offers=offers(devices[0]),
        driver=driver,
        simulated=simulated,
        problems=tuple(lines),
    )


def samples_by_index(devices: Iterable[int], samples: Iterable[DeviceSample]) -> tuple[DeviceSample, ...]:
    """One sample for each index, in the order asked; nothing is known of an index without one."""
    known = {sample.index: sample for sample in samples}
    return tuple(
        known.get(index) or DeviceSample(index=index, memory_used_bytes=None, memory_total_bytes=None)
        for index in devices
    )


def visible_devices(
    devices: Sequence[DeviceInfo], value: str | None, *, uuid_prefix: str | None = None
) -> tuple[DeviceInfo, ...]:
    """The devices that a visibility variable allows, in its order; all of them if it is not set (`value` is None).

    Entries are indices or UUIDs, separated by commas. With `uuid_prefix`, an entry that begins with it may be the
    beginning of one device's UUID. An entry that matches no device, several, or one that was listed before ends the
    list, as runtimes do.
    """
    if value is None:
        return tuple(devices)
    chosen: list[DeviceInfo] = []
    for entry in map(str.strip, value.split(",")):
        abbreviated = uuid_prefix is not None and entry.startswith(uuid_prefix)
        matches = [
            device
            for device in devices
            if entry in (str(device.index), device.uuid) or (abbreviated and (device.uuid or "").startswith(entry))
        ]
        if len(matches) != 1 or matches[0] in chosen:
            break
        chosen += matches
    return tuple(chosen)


def of_one_model(devices: Sequence[DeviceInfo], variable: str) -> tuple[tuple[DeviceInfo, ...], tuple[str, ...]]:
    """The devices of the first one's model, since a run measures one model, and a line that names the others.

    `variable` is the visibility variable, by which a user chooses other devices.
    """
    chosen = tuple(device for device in devices if device.model == devices[0].model)
    others = [device for device in devices if device.model != devices[0].model]
    if not others:
        return chosen, ()
    listed = ", ".join(f"{device.index} ({device.model})" for device in others)
    alternative = ",".join(str(device.index) for device in others if device.model == others[0].model)
    reason = f"a run measures devices of one model, and the first is {chosen[0].model}"
    return chosen, (f"devices left out: {listed}: {reason}; choose others with {variable}={alternative}",)


def planned_indices(plan: Plan) -> tuple[int, ...]:
    """Indices of the devices that a plan uses on each node, in the order of the ranks."""
    return tuple(device.index for device in plan.probe.devices[: plan.layout.devices_per_node])


def visibility_variable(plan: Plan, variable: str) -> dict[str, str]:
    """The variable that shows the planned devices to the ranks; empty where they are simply the node's first ones."""
    indices = planned_indices(plan)
    return {} if indices == tuple(range(len(indices))) else {variable: ",".join(map(str, indices))}
