"""What a row was run on, by its configuration and by columns that count nodes and devices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from llmperf_published.reading.cell_text import normal, withheld
from llmperf_published.reading.machine import hardware, in_place_of_a_device
from llmperf_published.reading.numbers import whole
from llmperf_published.reading.sections import Contents
from llmperf_published.reading.settings import told
from llmperf_published.reading.vendors import vendors_named
from llmperf_published.reading.vocabulary import COUNTS
from llmperf_published.types.document import PublishedHardware


def machine(by_name: Mapping[str, str], cells: Sequence[str], contents: Contents) -> PublishedHardware:
    """Its configuration cell, with the accelerator of the environment where the row says nothing else.

    A row that withholds its device (`*`, `/`), or names it in a way that is not read, is on an unknown device; so is
    one that names no device and has another vendor in any of its cells.
    """
    models = {entry.text for entry in contents.entries("hardware", "accelerator") if told(entry.text)}
    model = models.pop() if len(models) == 1 else None
    where = _counted(hardware(_configuration(by_name), model), by_name)
    size = re.search(r"(?<![\d.])(\d{1,4})\s?GB?(?![a-z])", normal(model or ""), re.IGNORECASE)
    other = size is not None and where.device_memory is not None and int(size[1]) != where.device_memory
    named = vendors_named(" ".join(cells)) if where.device is None else []
    foreign = bool(named) and not set(named).issubset(vendors_named(model or ""))
    return replace(where, device_model=None) if other or foreign or not _may_be(model, where) else where


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


def unread_device(where: PublishedHardware) -> str | None:
    """A configuration that names its device in a way that is not read; None where it names none, or only marks it."""
    rest = in_place_of_a_device(where.configuration or "")
    unread = any(char.isalnum() for char in rest) and not withheld(rest) and not vendors_named(rest)
    return where.configuration if where.device is None and unread else None


def _may_be(model: str | None, where: PublishedHardware) -> bool:
    """Whether the environment's accelerator may be the row's device: `NVIDIA_A100-SXM4-40GB` is an A100, and no A10."""
    rest = in_place_of_a_device(where.configuration or "")
    named = re.sub(r"[\s_-]+", "", where.device or rest) or rest
    if model is None or not named:
        return True
    letters = r"[\s_-]*".join(map(re.escape, named))
    if where.device is None:  # no more than a vendor or a family: a whole word, `X` is none of `SXM4`
        letters = r"(?<![A-Za-z0-9])" * named[0].isascii() + letters + r"(?![A-Za-z])" * named[-1].isascii()
    after = "" if named.isalpha() else r"(?!\d)"  # an MLU370 is an MLU
    return re.search(letters + after, normal(model), re.IGNORECASE) is not None
