"""What a row was run on, by its configuration and by columns that count nodes and devices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from llmperf.importing.cell_text import normal
from llmperf.importing.configurations import hardware
from llmperf.importing.numbers import whole
from llmperf.importing.sections import Contents
from llmperf.importing.settings import told
from llmperf.importing.vocabulary import COUNTS
from llmperf.types.published import PublishedHardware


def machine(by_name: Mapping[str, str], contents: Contents) -> PublishedHardware:
    """Its configuration cell, with the accelerator of the environment unless name or memory say that it is another."""
    models = {entry.text for entry in contents.entries("hardware", "accelerator") if told(entry.text)}
    model = models.pop() if len(models) == 1 else None
    where = _counted(hardware(_configuration(by_name), model), by_name)
    size = re.search(r"(?<![\d.])(\d{1,4})\s?GB?(?![a-z])", normal(model or ""), re.IGNORECASE)
    other = size is not None and where.device_memory is not None and int(size[1]) != where.device_memory
    return replace(where, device_model=None) if other or not _names(model, where.device) else where


def _configuration(by_name: Mapping[str, str]) -> str | None:
    """The cell that names the machine: where no other does, one below `config` that says nodes x devices."""
    named = by_name.get("config_name", "")
    if "configuration" not in by_name and not named.lower().startswith("config"):
        where = hardware(named, None)
        if where.nodes and where.devices_per_node:
            return named
    return by_name.get("configuration") or by_name.get("device")


def _counted(where: PublishedHardware, by_name: Mapping[str, str]) -> PublishedHardware:
    """With the columns that count, where the configuration does not say; `2` nodes and `8` GPUs may be 2x8 or 2x4."""
    counts = {name: whole(normal(by_name.get(name, ""))) for name in COUNTS}
    nodes, each = where.nodes or counts["nodes"], where.devices_per_node or counts["devices_per_node"]
    clear = each is not None or nodes in (None, 1)
    devices = where.devices or counts["world_size"] or (counts["device_count"] if clear else None)
    if each is None and nodes and devices and devices % nodes == 0:
        each = devices // nodes
    return replace(where, nodes=nodes, devices_per_node=each, devices=devices)


def unclear_count(where: PublishedHardware, by_name: Mapping[str, str]) -> str | None:
    """A count of devices of which it is not said whether it is that of each node; None where there is none."""
    text = told(by_name.get("device_count"))
    return text if text and where.nodes and where.devices_per_node is None else None


def _names(model: str | None, device: str | None) -> bool:
    """Whether an accelerator may be what a row calls `device`: `NVIDIA_A100-SXM4-40GB` is an A100, and no A10."""
    if model is None or device is None:
        return True
    letters = r"[\s_-]*".join(map(re.escape, re.sub(r"[\s_-]+", "", device)))
    return re.search(rf"{letters}(?!\d)", normal(model), re.IGNORECASE) is not None
