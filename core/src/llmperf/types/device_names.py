"""Names of device models, which sources spell differently: `NVIDIA A100-SXM4-40GB`, `nvidia_a100_sxm4_40gb`."""

from __future__ import annotations

import re


def device_words(name: str) -> tuple[str, ...]:
    """The words of a name, in small letters; `_` and `-` separate words, as spaces do."""
    return tuple(re.split(r"[\s_-]+", name.strip().casefold()))


def same_device(name: str, other: str) -> bool:
    """Whether two names are equal but for their spelling, or one has a word without digits, a vendor's, before it."""
    first, second = sorted((device_words(name), device_words(other)), key=len)
    return first == second or (first == second[1:] and second[0].isalpha() and any(map(_has_digit, first)))


def _has_digit(word: str) -> bool:
    return any(character.isdigit() for character in word)
