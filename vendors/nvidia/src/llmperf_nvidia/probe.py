"""The GPUs of this node that a run can use; never through torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from llmperf.types import DeviceInfo, Probe

from llmperf_nvidia.catalogue import offers
from llmperf_nvidia.inventory import Seen, through_nvml, through_smi
from llmperf_nvidia.runtimes import runtime_problems


def probe() -> Probe:
    """The whole GPUs of one model that answer and that `CUDA_VISIBLE_DEVICES` allows.

    `problems` has a line for each that is left out, or one that says why there is none.
    """
    try:
        seen = _seen()
        allowed = visible(seen.devices, os.environ.get("CUDA_VISIBLE_DEVICES"))
    except (OSError, ValueError) as error:
        return _none((str(error),))
    whole = [one for one in allowed if one.details.get("mig") != "on"]
    devices = tuple(one for one in whole if one.model == whole[0].model)
    problems = (*seen.problems, *map(_sliced, set_aside(allowed, whole)), *_other_models(whole, devices))
    if not devices:
        hidden = () if problems else ("the NVIDIA driver shows no GPU, or CUDA_VISIBLE_DEVICES hides all of them",)
        return _none((*problems, *hidden))
    return Probe(
        vendor="nvidia",
        devices=devices,
        offers=replace(
            offers(devices[0].details.get("compute_capability")),
            runtime_problems=runtime_problems(devices[0], seen.driver),
        ),
        driver=seen.driver,
        interconnect=interconnect(devices),
        problems=problems,
    )


def _seen() -> Seen:
    try:
        return through_nvml()
    except OSError as error:
        try:
            return through_smi()
        except OSError as second:
            raise OSError(f"no NVIDIA driver answers: {error}; {second}") from None


def visible(devices: tuple[DeviceInfo, ...], allowed: str | None) -> tuple[DeviceInfo, ...]:
    """The devices that `CUDA_VISIBLE_DEVICES` allows, in its order; all of them if it is not set.

    As CUDA does, an entry that names no device ends the list. Raises ValueError for MIG entries, which are
    not supported.
    """
    if allowed is None:
        return devices
    chosen = []
    for entry in map(str.strip, allowed.split(",")):
        if entry.startswith("MIG"):
            raise ValueError(f"CUDA_VISIBLE_DEVICES={allowed}: expected whole GPUs, found the MIG slice {entry}")
        named = [one for one in devices if entry in (str(one.index), one.uuid) or _abbreviates(entry, one)]
        if len(named) != 1:
            break
        chosen += named
    return tuple(chosen)


def _abbreviates(entry: str, device: DeviceInfo) -> bool:
    return entry.startswith("GPU-") and device.uuid is not None and device.uuid.startswith(entry)


def set_aside(all_of_them: Sequence[DeviceInfo], kept: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """Those that are not kept."""
    indices = {one.index for one in kept}
    return [one for one in all_of_them if one.index not in indices]


def _sliced(device: DeviceInfo) -> str:
    mend = f"nvidia-smi -i {device.index} -mig 0"
    return f"GPU {device.index} is left out: it is in MIG mode, and slices are not measured (turn it off: {mend})"


def _other_models(whole: Sequence[DeviceInfo], kept: Sequence[DeviceInfo]) -> list[str]:
    """One line for those of other models than the first: a run measures one model."""
    others = set_aside(whole, kept)
    if not others:
        return []
    named = ", ".join(f"{one.index} ({one.model})" for one in others)
    chosen = ",".join(str(one.index) for one in others if one.model == others[0].model)
    reason = f"a run measures GPUs of one model, and the first is {kept[0].model}"
    return [f"GPUs left out: {named}: {reason}; choose others with CUDA_VISIBLE_DEVICES={chosen}"]


def interconnect(devices: Sequence[DeviceInfo]) -> str | None:
    """What the GPUs talk over: NVLink if all have links that are up, else PCIe; None where unknown."""
    links = [int(one.details.get("nvlinks", 0)) for one in devices]
    if all(links):
        each = str(links[0]) if len(set(links)) == 1 else f"{min(links)} to {max(links)}"
        return f"NVLink, {each} links each"
    buses = {one.details.get("pcie") for one in devices}
    return f"PCIe {buses.pop()}" if len(buses) == 1 and None not in buses else None


def _none(problems: tuple[str, ...]) -> Probe:
    return Probe(vendor="nvidia", devices=(), offers=offers(None), problems=problems)
