"""AMD's library through its Python module `amdsmi`, which comes with ROCm or as an extra of this package."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any, TypeVar

from llmperf_rocm.gpu import Gpu, first, memory, number, text

T = TypeVar("T")
MIB = 2**20
_open: list[Any] = []
"""The module, once it is initialised; kept between readings."""


def gpus() -> list[Gpu]:
    """Every GPU in the library's order; OSError, one line, where the library cannot be used."""
    library = _opened()
    handles = _asked(library, library.amdsmi_get_processor_handles)
    return [_gpu(library, index, handle) for index, handle in enumerate(handles)]


def _opened() -> Any:
    if not _open:
        try:
            with redirect_stdout(io.StringIO()):  # it prints what it does not find
                import amdsmi
        except ImportError:
            raise OSError("the Python module amdsmi is not installed") from None
        except Exception as error:  # it raises KeyError and others where its shared object is missing
            raise OSError(f"amdsmi finds no AMD driver library ({type(error).__name__})") from None
        _asked(amdsmi, amdsmi.amdsmi_init)
        _open.append(amdsmi)
    return _open[0]


def _asked(library: Any, question: Callable[[], T]) -> T:
    try:
        return question()
    except library.AmdSmiException as error:
        raise OSError(f"amdsmi: {' '.join(str(error).split())[:200]}") from None


def _gpu(library: Any, index: int, handle: Any) -> Gpu:
    def ask(name: str, *arguments: Any) -> Any:
        """An answer, or an empty one where this GPU or this version of the library has none."""
        try:
            return getattr(library, name)(handle, *arguments)
        except (library.AmdSmiException, AttributeError):
            return {}

    asic, driver, power = (
        ask("amdsmi_get_gpu_asic_info"),
        ask("amdsmi_get_gpu_driver_info"),
        ask("amdsmi_get_power_info"),
    )
    vram = ask("amdsmi_get_gpu_vram_usage")
    used, total = memory(number(vram.get("vram_used")), number(vram.get("vram_total")), MIB)
    names = ("socket_power", "current_socket_power", "average_socket_power")
    return Gpu(
        index=index,
        model=text(asic.get("market_name")),
        uuid=text(ask("amdsmi_get_gpu_device_uuid")),
        driver=text(driver.get("driver_version")),
        memory_used_bytes=used,
        memory_total_bytes=total,
        utilisation_percent=number(ask("amdsmi_get_gpu_activity").get("gfx_activity"), most=100),
        power_watts=first(*(number(power.get(name)) for name in names)),
        temperature_celsius=_temperature(library, ask),
        energy_joules=_energy(ask("amdsmi_get_energy_count")),
        details=_details(asic, ask("amdsmi_get_gpu_device_bdf")),
    )


def _temperature(library: Any, ask: Callable[..., Any]) -> float | None:
    kinds, now = library.AmdSmiTemperatureType, library.AmdSmiTemperatureMetric.CURRENT
    return first(*(number(ask("amdsmi_get_temp_metric", kind, now), most=150) for kind in (kinds.HOTSPOT, kinds.EDGE)))


def _energy(count: Any) -> float | None:
    """A counter in units of some microjoules."""
    ticks, microjoules = number(count.get("energy_accumulator")), number(count.get("counter_resolution"))
    return None if ticks is None or not microjoules else ticks * microjoules / 1e6


def _details(asic: Any, bus: Any) -> dict[str, str]:
    found = {"graphics_version": text(asic.get("target_graphics_version")), "pci_bus": text(bus)}
    return {name: value for name, value in found.items() if value is not None}
