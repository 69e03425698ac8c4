"""Vendors, devices and form factors as documents name them: from `vocabulary.toml` and installed plugins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache

from llmperf import device_aliases
from llmperf.types import DeviceInfo
from llmperf.validation import VendorCatalogue, about, device_names, installed_vendors, vendor_catalogue

from llmperf_published.reading.markdown import normal
from llmperf_published.reading.vocabulary import vocabulary

FORM_FACTOR = re.compile(
    r"(?<![A-Za-z0-9])(SXM|PCI-?E|NVL|OAM)(\d?)(?![A-Za-z0-9])(?!\s*(?:gen|\d+\.\d))", re.IGNORECASE
)
"""`PCIe 4.0` and `PCIe Gen5` are connections and no form factors; `NVL72` is a system."""
_MEMORY = re.compile(r"(?<![A-Za-z0-9])\d{1,3}\s?Gi?B?(?![A-Za-z])", re.IGNORECASE)
_SXM_SYSTEM = re.compile(r"(?<![A-Za-z])[DH]GX(?![A-Za-z])", re.IGNORECASE)


def devices_called(catalogue: VendorCatalogue, words: str, memory_gb: float | None = None) -> list[DeviceInfo]:
    """Devices of a vendor whose name has all these words, such as `A100`, with about that memory if it is given."""
    wanted = set(_words(words)) - {catalogue.vendor}
    if not wanted:
        return []
    return [
        device
        for device, _ in catalogue.devices
        if any(wanted <= set(_words(name)) for name in device_names(device))
        and (memory_gb is None or about(device.memory_bytes, memory_gb))
    ]


def _words(name: str) -> list[str]:
    """Words of a device name in Latin letters and digits: `Acme A1-SXM 40GB` gives acme, a1, sxm, 40gb."""
    return re.findall(r"[a-z0-9.+]+", name.lower())


def vendors_calling(words: str, vendor: str) -> Iterator[str]:
    """Installed vendors, other than the given one, that publish a device whose name has all these words."""
    for name in sorted(installed_vendors() - {vendor}):
        other = vendor_catalogue(name)
        if other is not None and devices_called(other, words):
            yield name


@cache
def vendor_patterns() -> Mapping[str, re.Pattern[str]]:
    """Vendor to the pattern of its names in lower-case text. Invalid patterns of plugins are ignored."""
    patterns: dict[str, list[str]] = {name: list(words) for name, words in vocabulary("vendors").items()}
    for name, aliases in device_aliases().items():
        for alias in aliases:
            with suppress(re.error):
                re.compile(alias)
                patterns.setdefault(name, []).append(alias)
    return {name: re.compile("|".join(words), re.IGNORECASE) for name, words in patterns.items() if words}


def vendors_named(text: str) -> list[str]:
    """Every vendor that a text names, by the name of its plugin if it has one."""
    words = normal(text).lower()
    return [name for name, pattern in vendor_patterns().items() if pattern.search(words)]


@cache
def _devices() -> re.Pattern[str]:
    names = vocabulary("devices")
    vendors = "|".join([*names["prefixes"], *(pattern.pattern for pattern in vendor_patterns().values())])
    common = r"[A-Za-z]{1,20}(?:-[A-Za-z]{1,10})?[\s-]?\d{1,6}[A-Za-z0-9]{0,10}\+?"
    counted = "gpus?|cards?|devices?|npus?|xpus?|accelerators?|nodes?|machines?|hosts?|servers?"
    return re.compile(
        rf"(?:(?:{vendors})\s*)*(?!(?:{counted})(?![A-Za-z]))(?!{'|'.join(names['others'])})"
        rf"(?P<device>{'|'.join([*names['patterns'], common])})",
        re.IGNORECASE,
    )


def device_at(text: str, start: int = 0) -> re.Match[str] | None:
    """The device that a text has at `start`, with or without its vendor, as the group `device`; None if it has none."""
    return _devices().match(text, start)


@cache
def software_words() -> re.Pattern[str]:
    """Names of software and of training phases, as whole words in lower-case text."""
    return re.compile(rf"\b(?:{'|'.join(vocabulary('software')['words'])})\b")


def form_factor(text: str) -> str | None:
    """The form factor that a name of a device or of a system states, without a version: `sxm` of `A100-SXM4`."""
    if match := FORM_FACTOR.search(text):
        return match[1].lower().replace("-", "")
    return "sxm" if _SXM_SYSTEM.search(text) else None


def without_form_factor(name: str) -> str:
    """`H100` of `H100 PCIe`."""
    return FORM_FACTOR.sub("", name).strip(" -")


@cache
def publishing(device: str) -> tuple[str, ...]:
    """The vendors that publish a device of this name, with or without its form and memory; none for these alone."""
    family = _MEMORY.sub(" ", without_form_factor(device))
    if not re.search(r"\d", family):
        return ()
    return tuple(vendors_calling(device, "")) or tuple(vendors_calling(family, ""))
