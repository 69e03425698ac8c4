"""AMD's library through its Python module `amdsmi`, which comes with ROCm or as an extra of this package."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

from llmperf_vendorkit import Row

_library: list[Any] = []
"""The module once it is initialised; kept between readings."""


def rows() -> list[Row]:
    """The cells of every GPU in the library's order; OSError, one line, where the library cannot be used."""
    if not _library:
        try:
            with redirect_stdout(io.StringIO()):  # it prints what it does not find
                import amdsmi
        except ImportError:
            raise OSError("the Python module amdsmi is not installed") from None
        except Exception as error:  # it raises KeyError and others where its shared object is missing
            raise OSError(f"amdsmi finds no AMD driver library ({type(error).__name__})") from None
        _call(amdsmi, amdsmi.amdsmi_init)
        _library.append(amdsmi)
    handles = _call(_library[0], _library[0].amdsmi_get_processor_handles)
    return [Row(_cells(_library[0], handle), f"GPU {number}") for number, handle in enumerate(handles)]


def _call(library: Any, function: Any) -> Any:
    try:
        return function()
    except library.AmdSmiException as error:
        raise OSError(f"amdsmi: {' '.join(str(error).split())[:200]}") from None


def _cells(library: Any, handle: Any) -> dict[str, object]:
    def ask(name: str, *arguments: Any) -> Any:
        """An answer, or an empty one where this GPU or this version of the library has none."""
        try:
            return getattr(library, name)(handle, *arguments)
        except (library.AmdSmiException, AttributeError):
            return {}

    asic, vram, power = ask("amdsmi_get_gpu_asic_info"), ask("amdsmi_get_gpu_vram_usage"), ask("amdsmi_get_power_info")
    sensors, now = library.AmdSmiTemperatureType, library.AmdSmiTemperatureMetric.CURRENT
    watts = [power.get(name) for name in ("socket_power", "current_socket_power", "average_socket_power")]
    celsius = [ask("amdsmi_get_temp_metric", sensor, now) for sensor in (sensors.HOTSPOT, sensors.EDGE)]
    return {
        "model": asic.get("market_name"),
        "uuid": ask("amdsmi_get_gpu_device_uuid"),
        "driver": ask("amdsmi_get_gpu_driver_info").get("driver_version"),
        "memory_used_mib": vram.get("vram_used"),
        "memory_total_mib": vram.get("vram_total"),
        "utilisation_percent": ask("amdsmi_get_gpu_activity").get("gfx_activity"),
        "power_watts": next((value for value in watts if isinstance(value, (int, float)) and value < 0xFFFF), None),
        "temperature_celsius": next((value for value in celsius if isinstance(value, (int, float))), None),
        "energy_joules": _joules(ask("amdsmi_get_energy_count")),
        "graphics_version": asic.get("target_graphics_version"),
        "pci_bus": ask("amdsmi_get_gpu_device_bdf"),
    }


def _joules(count: Mapping[str, Any]) -> float | None:
    """A counter in units of some microjoules; the largest number there is means that there is none."""
    ticks, microjoules = count.get("energy_accumulator"), count.get("counter_resolution")
    if not isinstance(ticks, int) or not isinstance(microjoules, (int, float)) or ticks == 2**64 - 1:
        return None
    return ticks * microjoules / 1e6
