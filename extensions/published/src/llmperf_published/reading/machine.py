"""What names a machine and a layout: `A100单机8卡（1x8*80G）`, `config_TP2PP4SH1SP1A10080Gx1x8`."""

from __future__ import annotations

import re

from llmperf_published.reading.cell_text import normal
from llmperf_published.types.document import ConfigurationName, PublishedHardware

_GRID = re.compile(r"\(\s*(\d{1,5})\s*[x*]\s*(\d{1,5})\s*(?:[x*]\s*(\d{1,4})\s*GB?)?\s*\)", re.IGNORECASE)
_BARE_GRID = re.compile(r"(?<![\dA-Za-z.])(\d{1,5})\s*[x*]\s*(\d{1,5})(?![\d.])")
_OF_NODES = r"(?:nodes?|machines?|hosts?|servers?|[机台])"
_OF_DEVICES = r"(?:gpus?|cards?|devices?|npus?|xpus?|accelerators?|卡)"
_SPELT_GRIDS = tuple(
    re.compile(rf"(?<![A-Za-z\d]){pattern}(?![\dA-Za-z])", re.IGNORECASE)
    for pattern in (
        rf"(?P<nodes>\d{{1,5}})\s*{_OF_NODES}\s*(?:[x*]|of)\s*(?P<each>\d{{1,5}})\s*{_OF_DEVICES}?",
        rf"(?P<each>\d{{1,5}})\s*{_OF_DEVICES}\s*[x*]\s*(?P<nodes>\d{{1,5}})\s*{_OF_NODES}",
    )
)
"""`2 nodes x 8 GPUs`, `8 GPUs * 2 nodes`: the count of devices is that of each node."""
_EACH = re.compile(
    rf"(\d{{1,5}})\s*{_OF_DEVICES}?\s*"
    r"(?:(?:/|per|a|in each|on each)\s*(?:node|machine|host|server)|each|每机|每台|/[机台])",
    re.IGNORECASE,
)
"""`8 GPUs per node`, `8 GPUs each`."""
_DEVICE = re.compile(
    r"(?:nvidia|英伟达|amd|昆仑芯|kunlunxin|昇腾|huawei|华为|ascend)?\s*"
    r"(?!(?:gpus?|cards?|devices?|npus?|xpus?|accelerators?|nodes?|machines?|hosts?|servers?)(?![A-Za-z]))"
    r"(atlas\s?\d{3}[A-Z]?(?:\sA\d)?|TPU\s?v\d{1,2}[a-z]{0,2}|MLU(?:\d{3}(?:-[A-Z]\d{1,2})?)?(?![A-Za-z\d])|910[A-D]?\d?(?=\s|\(|$)"
    r"|[A-Za-z]{1,20}(?:-[A-Za-z]{1,10})?[\s-]?\d{1,6}[A-Za-z0-9]{0,10}\+?)",
    re.IGNORECASE,
)
_MEMORY_BESIDE = re.compile(r"[_\s-](\d{2,3})\s?GB?(?![A-Za-z])", re.IGNORECASE)
"""Behind the name of a device: `h100_80gb`."""
_NODES = re.compile(r"(\d{1,5}|[二两三四五六七八九十])\s*(?:机|nodes?|machines?|台|hosts?)", re.IGNORECASE)
_CHINESE = {"两": 2, **{digit: value for value, digit in enumerate("二三四五六七八九十", 2)}}
_COUNTED = re.compile(r"(\d{1,6})\s*(?:卡|gpus?|cards?|devices?|npus?|xpus?|accelerators?)", re.IGNORECASE)
_SINGLE_NODE = re.compile(r"单机|single[ -]?(?:node|machine)", re.IGNORECASE)
_SINGLE_DEVICE = re.compile(r"单卡|single[ -]?(?:gpu|card|device)", re.IGNORECASE)

_PHASE = re.compile(r"\([^()]*(?:pre-?train|fine-?tun|sft|lora|预训练|微调|训练)[^()]*\)", re.IGNORECASE)
_NO_DEVICE = re.compile(
    rf"(?<![A-Za-z])(?:{_OF_NODES}|{_OF_DEVICES}|节点|单|每|共|各|total|single|one|each|per|in|on|of|all|with|and)(?![A-Za-z])",
    re.IGNORECASE,
)
"""Words around counts that name no device."""

_NAME = re.compile(r"(?<![A-Za-z0-9])config_[A-Za-z0-9_.\-]{1,120}", re.IGNORECASE)
_DEGREES = re.compile(r"(TP|PP|DP|SH|SP|EP|CP|MP)(\d{1,4})")
_MEMORY = r"16|24|32|40|48|64|80|94|96|128|141|144|192|256|288"
"""GB that there are; A10080G is an A100 of 80 GB, H20141G an H20 of 141."""
_PLACE = re.compile(rf"([A-Za-z][A-Za-z0-9-]{{0,20}}?)_?(?:({_MEMORY})G)?[x_](\d{{1,5}})x(\d{{1,5}})$")


def hardware(text: str | None, device_model: str | None) -> PublishedHardware:
    """The configuration cell's plain text."""
    words = normal(text or "")[:400]
    grid = _GRID.search(words) or _BARE_GRID.search(words)
    device = _DEVICE.match(words)
    beside = _MEMORY_BESIDE.match(words, device.end()) if device else None
    memory = int(grid[3]) if grid and grid.re is _GRID and grid[3] else int(beside[1]) if beside else None
    devices = _counted(_COUNTED, _SINGLE_DEVICE, words)
    nodes, each = (int(grid[1]), int(grid[2])) if grid else _spelt_out(words, devices)
    return PublishedHardware(
        configuration=text,
        device=_device_name(device, words, nodes) if device else None,
        device_model=device_model,
        nodes=nodes or None,
        devices_per_node=each or None,
        devices=devices,
        device_memory=memory or None,
    )


def in_place_of_a_device(text: str) -> str:
    """What a configuration has besides counts of nodes and devices: `Vendor X` of `Vendor X (1x8)`, `*` of `*(1x8)`.

    Empty where there are only counts, so that nothing is said of the device.
    """
    words = _PHASE.sub(" ", normal(text)[:400])
    for pattern in (_GRID, _BARE_GRID, *_SPELT_GRIDS, _EACH, _NODES, _COUNTED, _SINGLE_NODE, _SINGLE_DEVICE):
        words = pattern.sub(" ", words)
    return " ".join(_NO_DEVICE.sub(" ", words).split()).strip(" ,;:.()")


def _spelt_out(words: str, devices: int | None) -> tuple[int | None, int | None]:
    """Nodes and devices of each in words: `2 nodes x 8 GPUs`, `2 nodes, 8 GPUs each`, `2机16卡`."""
    for pattern in _SPELT_GRIDS:
        if found := pattern.search(words):
            return int(found["nodes"]), int(found["each"])
    nodes = _counted(_NODES, _SINGLE_NODE, words)
    if found := _EACH.search(words):
        return nodes, int(found[1])
    return nodes, devices // nodes if devices and nodes and not devices % nodes else None


def _device_name(found: re.Match[str], words: str, nodes: int | None) -> str:
    """`H1004机` is 4 machines with H100: the count of machines may stand at the name without a space."""
    name, count = found[1].strip(), str(nodes or "")
    joined = count and name.endswith(count) and re.match(r"[机台]", words[found.end() :])
    return name.removesuffix(count) if joined and re.search(r"\d", name.removesuffix(count)) else name


def _counted(number: re.Pattern[str], single: re.Pattern[str], words: str) -> int | None:
    found = number.search(words)
    if found:
        return _CHINESE.get(found[1]) or int(found[1]) or None
    return 1 if single.search(words) else None


def configuration_names(text: str, line: int) -> list[ConfigurationName]:
    """Every name of a configuration in a text."""
    return [configuration_name(one[0], line) for one in _NAME.finditer(text[:4000])]


def configuration_name(text: str, line: int) -> ConfigurationName:
    """What the name of one configuration says: `config_TP2PP4SH1SP1A10080Gx1x8`."""
    body = re.sub(r"^config_?|\.(?:py|json|ya?ml|toml|sh)$", "", text, flags=re.IGNORECASE)
    degrees = {}
    while found := _DEGREES.match(body):
        degrees[found[1]] = int(found[2])
        body = body[found.end() :].lstrip("_-")
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
