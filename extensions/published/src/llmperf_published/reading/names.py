"""Vendors, form factors and frameworks as documents name them: from `vocabulary.toml` and installed plugins."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points

from llmperf import device_aliases

from llmperf_published.reading.markdown import normal
from llmperf_published.reading.vocabulary import vocabulary

FORM_FACTOR = re.compile(
    r"(?<![A-Za-z0-9])(SXM|PCI-?E|NVL|OAM)(\d?)(?![A-Za-z0-9])(?!\s*(?:gen|\d+\.\d))", re.IGNORECASE
)
"""`PCIe 4.0` and `PCIe Gen5` are connections and no form factors; `NVL72` is a system."""
_SXM_SYSTEM = re.compile(r"(?<![A-Za-z])[DH]GX(?![A-Za-z])", re.IGNORECASE)
_DENIED_BEFORE = re.compile(r"(?:\b(?:no|not|without)|不使用|未使用|未采用|无|不)\s*$")
_DENIED_AFTER = re.compile(
    r"\s*[:=(]?\s*(?:(?:is |was )?not (?:used|applied|enabled)|none|no|off|false|disabled|unused|n/a|[-/*]+"
    r"|无|否|未使用|不使用|未采用|关闭)[\s).]*$"
)


@cache
def vendor_patterns() -> Mapping[str, re.Pattern[str]]:
    """Vendor to the pattern of its names in lower-case text. Invalid patterns of plugins are ignored."""
    patterns: dict[str, list[str]] = {name: list(words) for name, words in vocabulary("vendors").items()}
    for name, aliases in device_aliases().items():
        known = patterns.setdefault(name, [])
        known += [alias for alias in aliases if alias not in known and _is_pattern(alias)]
    return {name: re.compile("|".join(words), re.IGNORECASE) for name, words in patterns.items() if words}


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def vendors_named(text: str) -> list[str]:
    """Every vendor that a text names, by the name of its plugin if it has one."""
    words = normal(text).lower()
    return [name for name, pattern in vendor_patterns().items() if pattern.search(words)]


@cache
def _devices() -> re.Pattern[str]:
    names = vocabulary("devices")
    common = r"[A-Za-z]{1,20}(?:-[A-Za-z]{1,10})?[\s-]?\d{1,6}[A-Za-z0-9]{0,10}\+?"
    counted = "gpus?|cards?|devices?|npus?|xpus?|accelerators?|nodes?|machines?|hosts?|servers?"
    return re.compile(
        rf"(?:{'|'.join(names['prefixes'])})?\s*(?!(?:{counted})(?![A-Za-z]))(?!{'|'.join(names['others'])})"
        rf"(?P<device>{'|'.join([*names['patterns'], common])})",
        re.IGNORECASE,
    )


def device_at(text: str, start: int = 0) -> re.Match[str] | None:
    """The device that a text has at `start`, with or without its vendor, as the group `device`; None if it has none."""
    match = _devices().match(text, start)
    while match is None:
        vendors = (pattern.match(text, start) for pattern in vendor_patterns().values())
        end = max((vendor.end() for vendor in vendors if vendor), default=start)
        if end == start:
            return None
        start = end + len(text[end:]) - len(text[end:].lstrip())
        match = _devices().match(text, start)
    return match


@cache
def software_words() -> re.Pattern[str]:
    """Names of software and of training phases, as whole words in lower-case text."""
    return re.compile(rf"\b(?:{'|'.join(vocabulary('software')['words'])})\b")


def framework_named(training: str, optimisations: Sequence[str]) -> str | None:
    """The framework plugin that a document names; None if it names none, or one without a plugin.

    `training` is the text on parallel strategy and software, `optimisations` the lines on optimisation.
    """
    words = normal(training).lower()
    for entry in vocabulary("frameworks"):
        if entry["in"] == "training":
            named = all(re.search(pattern, words) for pattern in entry["patterns"])
        else:
            named = any(_uses(pattern, line) for pattern in entry["patterns"] for line in optimisations)
        if named:
            return str(entry["name"]) if "name" in entry else None
    others = [name for name, pattern in _other_frameworks().items() if pattern.search(words)]
    return others[0] if len(others) == 1 else None


def frameworks() -> set[str]:
    """Every framework plugin that a document can name here."""
    return {entry["name"] for entry in vocabulary("frameworks") if "name" in entry} | set(_other_frameworks())


@cache
def _other_frameworks() -> Mapping[str, re.Pattern[str]]:
    """Other installed framework plugins. The name `my_trainer` is also `my-trainer`, `My Trainer`."""
    listed = {entry.get("name") for entry in vocabulary("frameworks")}
    installed = sorted({entry.name for entry in entry_points(group="llmperf.framework.v1")} - listed)
    spelt = {name: r"[\s_-]*".join(map(re.escape, name.lower().split("_"))) for name in installed}
    return {name: re.compile(rf"(?<![a-z0-9]){words}(?![a-z0-9])") for name, words in spelt.items()}


def _uses(word: str, line: str) -> bool:
    """Check whether a line names a technique and does not deny its use."""
    before, match, after = (normal(line).lower() + " ").partition(word)
    part_of_a_word = any(char.isascii() and char.isalpha() for char in (before[-1:], after[:1]))
    return bool(match) and not part_of_a_word and not _DENIED_BEFORE.search(before) and not _DENIED_AFTER.match(after)


def form_factor(text: str) -> str | None:
    """The form factor that a name of a device or of a system states, without a version: `sxm` of `A100-SXM4`."""
    if match := FORM_FACTOR.search(text):
        return match[1].lower().replace("-", "")
    return "sxm" if _SXM_SYSTEM.search(text) else None


def without_form_factor(name: str) -> str:
    """`H100` of `H100 PCIe`."""
    return FORM_FACTOR.sub("", name).strip(" -")
