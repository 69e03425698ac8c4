"""The machine of a row: `A100单机8卡（1x8*80G）`, columns that count devices, `config_TP2PP4SH1SP1A10080Gx1x8`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from llmperf_published.reading.markdown import normal, withheld
from llmperf_published.reading.names import (
    FORM_FACTOR,
    device_at,
    form_factor,
    publishing,
    vendors_named,
    without_form_factor,
)
from llmperf_published.reading.numbers import whole
from llmperf_published.reading.sections import Contents
from llmperf_published.reading.settings import precision_in, stated
from llmperf_published.reading.vocabulary import COUNTS
from llmperf_published.types.row import ConfigurationName, PublishedHardware

_GRID = re.compile(r"\(\s*(\d{1,5})\s*[x*]\s*(\d{1,5})\s*(?:[x*]\s*(\d{1,4})\s*GB?)?\s*\)", re.IGNORECASE)
_BARE_GRID = re.compile(r"(?<![\dA-Za-z.])(\d{1,5})\s*[x*]\s*(\d{1,3})(?![\d.]|[A-D](?![A-Za-z]))")
"""`2x8`, but not `8x 4090` and `8x910B`."""
_BEFORE = re.compile(
    r"\s*(?:\d{1,5}\s*[x*]\s*\d{1,3}(?:\s*[x*]\s*|\s+)(?=[A-Z])|(\d{1,5})(?:\s*[x*]\s*|\s+))", re.IGNORECASE
)
_OF_NODES = r"(?:nodes?|machines?|hosts?|servers?|[机台])"
_OF_DEVICES = r"(?:gpus?|cards?|devices?|npus?|xpus?|accelerators?|卡)"
_BEHIND = re.compile(rf"[x*]\s*(\d{{1,5}})\s*(?:$|[,;)]|{_OF_DEVICES}(?![a-z]))", re.IGNORECASE)
"""The number of devices beside their name: `8x A100`, `8 NVIDIA H100 GPUs`, `H100-80GB * 8`."""
_SPELT_GRID = re.compile(
    rf"(?<![A-Za-z\d])(\d{{1,5}})\s*{_OF_NODES}\s*(?:[x*]|of)\s*(\d{{1,5}})\s*{_OF_DEVICES}?", re.IGNORECASE
)
"""`2 nodes x 8 GPUs`."""
_MEMORY_BESIDE = re.compile(
    rf"(?:[\s(-]*{FORM_FACTOR.pattern}\)?)?[_\s-](?P<memory>\d{{2,3}})\s?GB?(?![A-Za-z])", re.IGNORECASE
)
"""Memory after the name of a device: `h100_80gb`."""
_NODES = re.compile(r"(\d{1,5}|[二两三四五六七八九十])\s*(?:机|nodes?|machines?|台|hosts?)", re.IGNORECASE)
_CHINESE = {"两": 2, **{digit: value for value, digit in enumerate("二三四五六七八九十", 2)}}
_COUNTED = re.compile(
    r"(?<![A-WYZa-wyz\d.])(\d{1,6})\s*(?:卡|gpus?|cards?|devices?|npus?|xpus?|accelerators?)", re.IGNORECASE
)
_SINGLE_NODE = re.compile(r"单机|single[ -]?(?:node|machine)", re.IGNORECASE)
_SINGLE_DEVICE = re.compile(r"单卡|single[ -]?(?:gpu|card|device)", re.IGNORECASE)

_NUMBERED = re.compile(r"(?!.*(?:[LTP]4|TPU|Gaudi))\D*\d", re.IGNORECASE)
"""A name with one digit, which may number anything else: a device only if it is the whole cell, or is counted."""
_PHASE = re.compile(r"\([^()]*(?:pre-?train|fine-?tun|sft|lora|预训练|微调|训练)[^()]*\)", re.IGNORECASE)
_NO_DEVICE = re.compile(
    rf"(?<![A-Za-z])(?:{_OF_NODES}|{_OF_DEVICES}|节点|单|每|共|各|total|single|one|each|per|in|on|of|all|with|and)(?![A-Za-z])",
    re.IGNORECASE,
)
"""Words beside counts that name no device."""

CONFIGURATION = re.compile(r"(?<![A-Za-z0-9])config_[A-Za-z0-9_.\-]{1,120}", re.IGNORECASE)
_DEGREES = re.compile(r"(TP|PP|DP|SH|SP|EP|CP|MP)(\d{1,4})")
_MEMORY = r"16|24|32|40|48|64|80|94|96|128|141|144|192|256|288"
"""Existing memory sizes in GB: A10080G is an A100 of 80 GB, H20141G an H20 of 141 GB."""
_PLACE = re.compile(rf"([A-Za-z][A-Za-z0-9-]{{0,20}}?)_?(?:({_MEMORY})G)?[x_](\d{{1,5}})x(\d{{1,5}})$")


def hardware(text: str | None, device_model: str | None) -> PublishedHardware:
    """The machine that a configuration cell describes; `device_model` is the accelerator of the environment."""
    words = _words(text or "")
    grid = _GRID.search(words) or _BARE_GRID.search(words)
    before = _BEFORE.match(words)
    device = device_at(words) or (device_at(words, before.end()) if before else None)
    nodes, devices = _counted(_NODES, _SINGLE_NODE, words), _counted(_COUNTED, _SINGLE_DEVICE, words)
    each = None
    if device and not devices:
        behind = None if grid else _BEHIND.search(words, device.end())
        counted = before if before and before.end() <= device.start() else behind
        devices = int(counted[1] or 0) or None if counted else None
    if grid:
        nodes, each = int(grid[1]), int(grid[2])
    elif nodes and devices:  # of `2 nodes, 8 GPUs` the number may be that of each node
        each = devices // nodes if not devices % nodes and (nodes == 1 or "卡" in words) else None
        devices = devices if each else None
    if device and not (nodes or devices) and _NUMBERED.fullmatch(device[0]) and words[device.end() :].strip():
        device = None  # `P1 baseline`, `OLMo 3 32B`
    memory = grid[3] if grid and grid.re is _GRID else None
    name = None
    if device is not None:
        name = device["device"].strip()
        beside = _MEMORY_BESIDE.match(words, device.end())
        memory = memory or (beside["memory"] if beside else None)
        alone = name.removesuffix(str(nodes or ""))  # `H1004机` is H100 on 4 machines
        if re.search(r"\d", alone) and re.match(r"[机台]", words[device.end() :]):
            name = alone
        if form := FORM_FACTOR.search(words, device.end()):
            name = f"{name} {form[0]}"
        bar = re.compile(r"\s*(?:/|or\b|或)\s*").match(words, device.end())
        other = device_at(words, bar.end()) if bar else None  # `H100/H200 SXM` is either
        if other and precision_in(other[0]) is None and other["device"].lower() != device["device"].lower():
            name = None
    return PublishedHardware(
        configuration=text,
        device=name,
        device_model=device_model,
        nodes=nodes or None,
        devices_per_node=each or None,
        devices=devices,
        device_memory=int(memory or 0) or None,
    )


def _words(text: str) -> str:
    return _SPELT_GRID.sub(r"\1x\2", normal(text)[:400])


def in_place_of_a_device(text: str) -> str:
    """A configuration without its counts of nodes and devices: `Vendor X` of `Vendor X (1x8)`, `*` of `*(1x8)`.

    Empty if there are only counts.
    """
    words = re.sub(r"^\s*\d{1,5}\s*[x*]\s*(?=[A-Za-z])", "", _PHASE.sub(" ", _words(text)))
    for pattern in (_GRID, _BARE_GRID, _NODES, _COUNTED, _SINGLE_NODE, _SINGLE_DEVICE):
        words = pattern.sub(" ", words)
    return " ".join(_NO_DEVICE.sub(" ", words).split()).strip(" ,;:.()")


def _counted(number: re.Pattern[str], single: re.Pattern[str], words: str) -> int | None:
    if match := number.search(words):
        return _CHINESE.get(match[1]) or int(match[1]) or None
    return 1 if single.search(words) else None


def machine(
    by_name: Mapping[str, str], cells: Sequence[str], contents: Contents, stated_device: str | None = None
) -> PublishedHardware:
    """The machine of a row, with the accelerator of the environment unless the row may be on another device.

    `stated_device` is in place of an accelerator that the environment does not name. The device stays unknown if the
    row withholds it (`*`, `/`), names it in a form that cannot be parsed, or names no device and another vendor in any
    of its cells.
    """
    models = {entry.text for entry in contents.entries("hardware", "accelerator") if stated(entry.text)}
    model = models.pop() if len(models) == 1 else None if models else stated_device
    cell = by_name.get("configuration") or by_name.get("device")
    if not cell:
        # `System` may name software: it counts with a vendor, counted devices, or a device that a vendor publishes
        cell = by_name.get("machine", "")
        found = hardware(cell, None)
        if not vendors_named(cell) and not (found.device and (found.devices or publishing(found.device))):
            cell = by_name.get("device_count", "")  # `2x4` and `8x H100` below `GPUs`
            cell = cell if whole(normal(cell)) is None and hardware(cell, None).world_size else None
    where = hardware(cell, model)
    # columns count where the configuration does not; `2` nodes and `8` GPUs may be 2x8 or 2x4
    counts = {name: whole(normal(by_name.get(name, ""))) for name in COUNTS}
    grid = hardware(by_name.get("device_count", ""), None)  # `2x8` below `GPUs`, beside a configuration
    nodes = where.nodes or counts["nodes"] or grid.nodes
    each = where.devices_per_node or counts["devices_per_node"] or grid.devices_per_node
    clear = each is not None or nodes in (None, 1)
    own_count = where.devices if clear or _COUNTED.search(where.configuration or "") else None
    devices = own_count or counts["world_size"] or (counts["device_count"] if clear else None)
    if each is None and nodes and devices and devices % nodes == 0:
        each = devices // nodes
    elif nodes is None and each and counts["devices_per_node"] and devices and devices % each == 0:
        nodes = devices // each
    where = replace(where, nodes=nodes, devices_per_node=each, devices=devices)
    own = hardware(by_name.get("device"), None)  # a column `Accelerator` beside `Hardware`
    if where.device is None and own.device and not in_place_of_a_device(where.configuration or ""):
        where = replace(where, device=own.device, device_memory=where.device_memory or own.device_memory)
    size = re.search(r"(?<![\d.])(\d{1,4})\s?GB?(?![a-z])", normal(model or ""), re.IGNORECASE)
    other_size = size is not None and where.device_memory is not None and int(size[1]) != where.device_memory
    named = vendors_named(" ".join(cells)) if where.device is None else []
    other_vendor = bool(named) and not set(named).issubset(vendors_named(model or ""))
    if other_size or other_vendor or not _may_be(model, where):
        return replace(where, device_model=None)
    return where


def _may_be(model: str | None, where: PublishedHardware) -> bool:
    """Check whether the row's device may be the environment's: `NVIDIA_A100-SXM4-40GB` is no A10 and no A100 PCIe."""
    form, known = form_factor(where.configuration or ""), form_factor(model or "")
    if form != known and (form_factor(where.device or "") or (form and known)):
        return False
    rest = in_place_of_a_device(where.configuration or "")
    named = re.sub(r"[\s_-]+", "", without_form_factor(where.device or rest)) or rest
    if model is None or not named:
        return True
    letters = r"[\s_-]*".join(map(re.escape, named))
    if where.device is None:  # only a vendor or a family, as a whole word: `X` does not match `SXM4`
        letters = r"(?<![A-Za-z0-9])" * named[0].isascii() + letters + r"(?![A-Za-z])" * named[-1].isascii()
    after = "" if named.isalpha() else r"(?!\d)"  # an MLU370 is an MLU
    return re.search(letters + after, normal(model), re.IGNORECASE) is not None


def machine_problems(where: PublishedHardware, by_name: Mapping[str, str]) -> list[tuple[str, str]]:
    """Parts of a row's machine that could not be parsed: pairs of text and what was expected in its place."""
    problems = []
    configuration = where.configuration or ""
    machine = by_name.get("machine")
    if machine and machine != configuration and not withheld(machine):
        problems.append((machine, "expected a machine such as DGX-H100 or (1x8)"))
    named = where.devices is not None or (where.device is not None and where.nodes is None)
    if not withheld(configuration) and not where.devices_per_node and not named:
        problems.append((configuration, "expected nodes x devices such as (1x8)"))
    rest = in_place_of_a_device(configuration)
    several = where.device is None and device_at(configuration) is not None
    unread = several or (any(char.isalnum() for char in rest) and not withheld(rest) and not vendors_named(rest))
    if where.device is None and where.device_model is None and unread:
        problems.append((configuration, "expected the name of a device such as A100; which it was stays unknown"))
    count = stated(by_name.get("device_count"))
    if count and where.nodes and where.devices_per_node is None:
        problems.append((count, "expected devices in all or in each node, and a word that says which"))
    return problems


def configuration_name(text: str, line: int) -> ConfigurationName:
    """The layout and machine in the name of a configuration: `config_TP2PP4SH1SP1A10080Gx1x8`."""
    body = re.sub(r"^config_?|\.(?:py|json|ya?ml|toml|sh)$", "", text, flags=re.IGNORECASE)
    degrees = {}
    while match := _DEGREES.match(body):
        degrees[match[1]] = int(match[2])
        body = body[match.end() :].lstrip("_-")
    place = _PLACE.search(body)
    device, memory = (place[1], place[2]) if place else (None, None)
    return ConfigurationName(
        line=line,
        text=text,
        device=device,
        memory=int(memory) or None if memory else None,
        nodes=(int(place[3]) or None) if place else None,
        devices_per_node=(int(place[4]) or None) if place else None,
        degrees=degrees,
    )
