"""AMD GPUs: AMD's three interfaces, the best one first, and the variables that hide GPUs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from llmperf.types import DeviceInfo, Plan
from llmperf_vendorkit import (
    AcceleratorVendor,
    CommandReader,
    Inventory,
    JsonCommand,
    Reading,
    planned_indices,
    read_rows,
    visible_devices,
)

from llmperf_rocm import library

ROCR = "ROCR_VISIBLE_DEVICES"
HIP = "HIP_VISIBLE_DEVICES"
CUDA = "CUDA_VISIBLE_DEVICES"
"""HIP reads it where its own variable is not set."""
SECONDS = 20.0

STATIC = JsonCommand(
    argv=("amd-smi", "static", "--asic", "--bus", "--driver", "--vram", "--json"),
    devices="gpu_data",  # newer versions wrap the list
    skip=("cpu",),
    fields={
        "index": "gpu",
        "model": "asic.market_name",
        "driver": ("driver.version", "driver.driver_version"),
        "memory_total_mib": "vram.size",
        "graphics_version": "asic.target_graphics_version",
        "pci_bus": "bus.bdf",
    },
    seconds=SECONDS,
)
METRIC = JsonCommand(
    argv=("amd-smi", "metric", "--usage", "--power", "--temperature", "--mem-usage", "--energy", "--json"),
    devices="gpu_data",
    skip=("cpu",),
    fields={
        "index": "gpu",
        "memory_used_mib": "mem_usage.used_vram",
        "memory_total_mib": "mem_usage.total_vram",
        "utilisation_percent": "usage.gfx_activity",
        "power_watts": "power.socket_power",
        "temperature_celsius": ("temperature.hotspot", "temperature.edge"),
        "energy_joules": "energy.total_energy_consumption",
    },
    seconds=SECONDS,
)
ROCM_SMI = JsonCommand(
    argv=(
        *("rocm-smi", "--showproductname", "--showuniqueid", "--showdriverversion", "--showmeminfo", "vram"),
        *("--showuse", "--showtemp", "--showpower", "--json"),
    ),
    keys=r"card([0-9]{1,4})",
    skip=("system",),
    shared={"driver": "system.Driver version"},
    fields={
        "model": ("Card Series", "Card series"),
        "uuid": "Unique ID",
        "memory_used_bytes": "VRAM Total Used Memory (B)",
        "memory_total_bytes": "VRAM Total Memory (B)",
        "utilisation_percent": "GPU use (%)",
        "power_watts": ("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)"),
        "temperature_celsius": ("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)"),
    },
    seconds=SECONDS,
)


def plausible_reading(cells: Mapping[str, object]) -> Reading:
    """A reading in which implausible figures are unknown, since missing sensors show the largest possible number."""
    return Reading.from_cells(cells, strict=False)


AMD_SMI = CommandReader(STATIC, METRIC, readings=(METRIC,), read=plausible_reading)
OLD_SMI = CommandReader(ROCM_SMI, read=plausible_reading)


def from_library() -> Inventory:
    """Every GPU through the Python module `amdsmi`; OSError where it cannot be used."""
    return read_rows(library.rows(), "amdsmi", plausible_reading)


SOURCES = ((from_library, from_library), (AMD_SMI.inventory, AMD_SMI.readings), (OLD_SMI.inventory, OLD_SMI.inventory))
"""How each interface reads everything, and the figures that change."""
_chosen: list[Callable[[], Inventory]] = []
"""How the interface that answered reads the figures that change."""


def inventory() -> Inventory:
    """Every GPU by the first interface that shows any; OSError, one line with each one's reason, if none does."""
    reasons: list[str] = []
    for everything, changing in SOURCES:
        try:
            shown = everything()
        except OSError as error:
            reasons.append(str(error))
            continue
        if shown.readings:
            _chosen[:] = [changing]
            return shown
        reasons += shown.problems or ("no GPU is shown",)
    raise OSError(f"no AMD driver answers: {'; '.join(reasons)}")


def readings() -> Inventory:
    """Every GPU by the interface that answered before; OSError where none answers."""
    return _chosen[0]() if _chosen else inventory()


def allowed(devices: Sequence[DeviceInfo]) -> tuple[DeviceInfo, ...]:
    """The GPUs that both variables allow. The second counts what the first leaves; indices stay the driver's."""
    left = visible_devices(devices, os.environ.get(ROCR))
    counted = [replace(device, index=position) for position, device in enumerate(left)]
    chosen = visible_devices(counted, os.environ.get(HIP, os.environ.get(CUDA)))
    return tuple(left[device.index] for device in chosen)


def worker_env(plan: Plan) -> dict[str, str]:
    """Both variables where the planned GPUs are not simply the first ones; on several nodes, RCCL's interface."""
    from llmperf import interface_variables

    indices = planned_indices(plan)
    interface = interface_variables(plan, "NCCL_SOCKET_IFNAME")
    if indices == tuple(range(len(indices))):
        return interface
    return {**interface, ROCR: ",".join(map(str, indices)), HIP: ",".join(map(str, range(len(indices))))}


ROCM = AcceleratorVendor(
    name="rocm",
    peaks=Path(__file__).parent / "data" / "peaks.toml",
    rates=Path(__file__).parent / "data" / "rates.toml",
    inventory=inventory,
    readings=readings,
    variable=HIP,
    allowed=allowed,
    runtimes=("torch",),
    collective_backend="nccl",  # torch's name for RCCL
    unknown_model="unknown AMD GPU",
)
