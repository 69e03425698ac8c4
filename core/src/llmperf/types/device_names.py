"""Names of device models, which sources spell differently: `NVIDIA A100-SXM4-40GB`, `nvidia_a100_sxm4_40gb`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.types.devices import DeviceInfo

_BETWEEN = re.compile(r"[\s_-]+|(?<=[^\x00-\x7f])(?=[a-z0-9])|(?<=[a-z])(?=[^\x00-\x7f])")
"""Between two words; the scripts of `昆仑芯AI加速卡R300` are words of their own."""


def device_words(name: str) -> tuple[str, ...]:
    """The words of a name, in small letters; `_` and `-` separate words, as spaces do."""
    return tuple(_BETWEEN.split(name.strip().casefold()))


def same_device(name: str, other: str) -> bool:
    """Check whether two names are equal but for their spelling and a vendor's name, a word without digits, before one.

    In other scripts there may be several words: `昆仑芯AI加速卡R300` is `R300`.
    """
    first, second = sorted((device_words(name), device_words(other)), key=len)
    before = second[: len(second) - len(first)]
    one_name = len(before) <= 1 or not all(map(str.isascii, before))
    named = all(map(str.isalpha, before)) and any(char.isdigit() for word in first for char in word)
    return first == second[len(before) :] and (not before or (one_name and named))


def normalised(model: str, vendor: str) -> str:
    """A device's name in lower case, without spaces, dashes, underscores and a leading vendor's name."""
    return re.sub(r"[\s_-]+", "", model).lower().removeprefix(vendor)


def device_names(device: DeviceInfo) -> list[str]:
    """Names of a device: its model, and its vendor's aliases (`details["aliases"]`, separated by commas)."""
    aliases = [alias.strip() for alias in device.details.get("aliases", "").split(",")]
    return [device.model, *(alias for alias in aliases if alias)]
