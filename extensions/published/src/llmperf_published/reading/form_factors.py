"""Form factors in the names of devices: `H100 PCIe`, `A100-SXM4-80GB`, `H100 NVL`, and systems such as `HGX H100`."""

from __future__ import annotations

import re

FORM_FACTOR = re.compile(
    r"(?<![A-Za-z0-9])(SXM|PCI-?E|NVL|OAM)(\d?)(?![A-Za-z0-9])(?!\s*(?:gen|\d+\.\d))", re.IGNORECASE
)
"""`PCIe 4.0` and `PCIe Gen5` are connections and no form factors; `NVL72` is a system."""
_SXM_SYSTEM = re.compile(r"(?<![A-Za-z])[DH]GX(?![A-Za-z])", re.IGNORECASE)


def form_factor(text: str) -> str | None:
    """The form factor that a name of a device or of a system states, without a version: `sxm` of `A100-SXM4`."""
    if match := FORM_FACTOR.search(text):
        return match[1].lower().replace("-", "")
    return "sxm" if _SXM_SYSTEM.search(text) else None


def without_form_factor(name: str) -> str:
    """`H100` of `H100 PCIe`."""
    return FORM_FACTOR.sub("", name).strip(" -")
