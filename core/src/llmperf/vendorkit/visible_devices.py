"""Which of a node's devices a vendor offers: those that its environment variable allows, of one model."""

from __future__ import annotations

from collections.abc import Sequence

from llmperf.types.devices import DeviceInfo


def visible_devices(devices: Sequence[DeviceInfo], value: str | None) -> tuple[DeviceInfo, ...]:
    """The devices that a variable such as `XPU_VISIBLE_DEVICES` names, in its order; all of them if it is not set.

    Entries are indices or UUIDs, separated by commas. One that names no device, or one a second time, ends the list, as
    runtimes have it.
    """
    if value is None:
        return tuple(devices)
    chosen: list[DeviceInfo] = []
    for entry in map(str.strip, value.split(",")):
        named = [one for one in devices if entry in (str(one.index), one.uuid)]
        if len(named) != 1 or named[0] in chosen:
            break
        chosen += named
    return tuple(chosen)


def of_one_model(devices: Sequence[DeviceInfo], variable: str) -> tuple[tuple[DeviceInfo, ...], tuple[str, ...]]:
    """Those of the first device's model, since a run measures one model; and a line that names the others.

    `variable` is what would choose others.
    """
    same = tuple(one for one in devices if one.model == devices[0].model)
    others = [one for one in devices if one.model != devices[0].model]
    if not others:
        return same, ()
    named = ", ".join(f"{one.index} ({one.model})" for one in others)
    chosen = ",".join(str(one.index) for one in others if one.model == others[0].model)
    reason = f"a run measures devices of one model, and the first is {same[0].model}"
    return same, (f"devices left out: {named}: {reason}; choose others with {variable}={chosen}",)
