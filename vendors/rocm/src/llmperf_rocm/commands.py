"""AMD's commands, for machines where the library cannot be loaded: `amd-smi`, else the older `rocm-smi`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from llmperf import tool_output

from llmperf_rocm.gpu import Gpu, first, memory, number, text

SECONDS = 20.0
MOST_GPUS = 1024
SHOWN = 80
MIB = 2**20
STATIC = ("amd-smi", "static", "--asic", "--bus", "--driver", "--vram", "--json")
METRIC = ("amd-smi", "metric", "--usage", "--power", "--temperature", "--mem-usage", "--energy", "--json")
ROCM_SMI = (
    *("rocm-smi", "--showproductname", "--showuniqueid", "--showdriverversion", "--showmeminfo", "vram"),
    *("--showuse", "--showtemp", "--showpower", "--json"),
)


def through_amd_smi(with_names: bool = True) -> list[Gpu]:
    """Every GPU; OSError, one line, where the command gives no answer. Names are not asked for without `with_names`."""
    fixed = _gpus(_answer(STATIC)) if with_names else {}
    moving = _gpus(_answer(METRIC))
    return [_gpu(index, fixed.get(index, {}), moving.get(index, {})) for index in sorted({*fixed, *moving})]


def _gpu(index: int, fixed: Mapping[str, Any], moving: Mapping[str, Any]) -> Gpu:
    held = _at(moving, "mem_usage")
    total = first(number(_at(held, "total_vram")), number(_at(fixed, "vram", "size")))
    used_bytes, total_bytes = memory(number(_at(held, "used_vram")), total, MIB)
    heat = _at(moving, "temperature")
    details = {
        "graphics_version": text(_at(fixed, "asic", "target_graphics_version")),
        "pci_bus": text(_at(fixed, "bus", "bdf")),
    }
    return Gpu(
        index=index,
        model=text(_at(fixed, "asic", "market_name")),
        driver=text(_at(fixed, "driver", "version")) or text(_at(fixed, "driver", "driver_version")),
        memory_used_bytes=used_bytes,
        memory_total_bytes=total_bytes,
        utilisation_percent=number(_at(moving, "usage", "gfx_activity"), most=100),
        power_watts=number(_at(moving, "power", "socket_power")),
        temperature_celsius=first(number(_at(heat, "hotspot"), most=150), number(_at(heat, "edge"), most=150)),
        energy_joules=number(_at(moving, "energy", "total_energy_consumption")),
        details={name: value for name, value in details.items() if value is not None},
    )


def through_rocm_smi() -> list[Gpu]:
    """Every GPU; OSError, one line, where the command gives no answer."""
    document = _answer(ROCM_SMI)
    if not isinstance(document, dict):
        raise OSError("rocm-smi: expected a JSON object with one entry for each card")
    driver = text(_at(document, "system", "Driver version"))
    cards = _cards(document)
    return [_card(index, cards[index], driver) for index in sorted(cards)]


def _cards(document: Mapping[str, Any]) -> dict[int, Any]:
    """Each card by its number; OSError that shows what is neither one nor about the whole system."""
    cards: dict[int, Any] = {}
    for name, card in document.items():
        if name == "system":
            continue
        fits = re.fullmatch("card[0-9]{1,9}", name) and isinstance(card, dict)
        if not fits or int(name[4:]) >= MOST_GPUS or int(name[4:]) in cards:
            raise OSError(f"rocm-smi: expected one entry for each card, found {_shown({name: card})}")
        cards[int(name[4:])] = card
    return cards


def _card(index: int, card: Any, driver: str | None) -> Gpu:
    total, used = number(_at(card, "VRAM Total Memory (B)")), number(_at(card, "VRAM Total Used Memory (B)"))
    used_bytes, total_bytes = memory(used, total, 1)
    heat = (number(_at(card, f"Temperature (Sensor {sensor}) (C)"), most=150) for sensor in ("junction", "edge"))
    watts = (number(_at(card, f"{kind} Package Power (W)")) for kind in ("Current Socket Graphics", "Average Graphics"))
    return Gpu(
        index=index,
        model=text(_at(card, "Card Series")) or text(_at(card, "Card series")),
        uuid=text(_at(card, "Unique ID")),
        driver=driver,
        memory_used_bytes=used_bytes,
        memory_total_bytes=total_bytes,
        utilisation_percent=number(_at(card, "GPU use (%)"), most=100),
        power_watts=first(*watts),
        temperature_celsius=first(*heat),
    )


def _answer(argv: Sequence[str]) -> Any:
    """The JSON that a command prints, after the warnings it may print before."""
    printed = tool_output(argv, seconds=SECONDS)
    lines = printed.splitlines()
    begins = next((place for place, line in enumerate(lines) if line[:1] in ("{", "[")), len(lines))
    try:
        return json.loads("\n".join(lines[begins:]))
    except (ValueError, RecursionError):
        raise OSError(f"{argv[0]}: expected JSON, found {printed[:SHOWN]!r}") from None


def _gpus(document: Any) -> dict[int, dict[str, Any]]:
    """Each GPU by its number; newer versions wrap the list. OSError that shows what does not fit."""
    listed = document.get("gpu_data") if isinstance(document, dict) else document
    if not isinstance(listed, list):
        raise OSError(f"amd-smi: expected a JSON list with one entry for each GPU, found {_shown(document)}")
    found: dict[int, dict[str, Any]] = {}
    for one in listed:
        if isinstance(one, dict) and "cpu" in one and "gpu" not in one:
            continue
        index = _at(one, "gpu")
        if type(index) is not int or not 0 <= index < MOST_GPUS or index in found:
            raise OSError(f"amd-smi: expected one entry for each GPU, found {_shown(one)}")
        found[index] = one
    return found


def _shown(document: Any) -> str:
    """The beginning of a document, on one line."""
    return json.dumps(document)[:SHOWN]


def _at(document: Any, *path: str) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document
