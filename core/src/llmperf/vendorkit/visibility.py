"""Which of a node's devices a run uses: those that the vendor's environment variable allows, of one model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmperf.types.devices import DeviceInfo

if TYPE_CHECKING:
    from llmperf.types.plan import Plan


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
