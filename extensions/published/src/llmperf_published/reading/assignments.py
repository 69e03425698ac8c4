"""Settings that cells write out: `MPE=512 LBS=12`, `sharding="stage2"`, `GAS=512(GBS=1024=4M tokens)`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from llmperf_published.reading.cell_text import normal, withheld
from llmperf_published.reading.numbers import amount
from llmperf_published.reading.vocabulary import setting
from llmperf_published.types.document import Claim, Figure

MAX_TEXT = 4000
"""Characters of a cell that is taken apart."""
_NAME = r"(?<![\w.\-])[A-Za-z_\u4e00-\u9fff][\w.\-]{0,60}(?:\s(?:bs|batch|size|batch\s?size|parallel|length))*"
_VALUE = r"\"[^\"]*\"|'[^']*'|(?:[^\s,;()\[\]\"'=+]|\+(?!\s*[A-Za-z_]\w*\s*[=:]))+"
"""`TP=4+FSDP=2` are two settings, `bf16+fp8` is one value."""
_ASSIGNMENT = re.compile(rf"(?P<name>{_NAME})\s*[=:]\s*(?P<value>{_VALUE})", re.IGNORECASE)
_CLAIM = re.compile(
    r"\(?\s*(?P<name>gbs|global\s?_?-?(?:bs|batch(?:\s?_?-?size)?))\s*[=:]\s*(?P<first>\d[\d.,]*\s*[kKmM]?(?:\s*tokens?)?)"
    r"(?:\s*=\s*(?P<second>\d[\d.,]*\s*[kKmM]?\s*tokens?))?\s*\)?",
    re.IGNORECASE,
)
_BESIDE_SETTINGS = re.compile(
    r"(?<![a-z])(?:with|and|using|uses?|is|are|of|the|parallel(?:ism)?|tensor|pipeline|data|sequence|context|expert|model"
    r"|sharded|hybrid|offload|(?:gradient|activation)\s?checkpointing"
    r"|recompute|flash[ -]?att(?:entio)?n|stage|degree|size|fsdp|ddp"
    r"|zero(?:[- ]?(?:dp|offload|infinity))*[\s_-]*(?:stage|o)?[\s_-]*[0-3]?|o[0-3])(?![a-z])"
    r"|采用|使用|设置|并行|张量|流水线?|数据|混合|序列|专家|模型|分片|和|与|为|度",
    re.IGNORECASE,
)
"""Words that may stand beside settings; with any other a text is prose."""
_DEGREE = re.compile(r"(TP|PP|DP|SP|SH|EP|CP|MP)\s*[=_:]?\s*(\d{1,5})", re.IGNORECASE)


@dataclass
class Assignments:
    """What a cell sets."""

    options: dict[str, str] = field(default_factory=dict)
    """Name to value, both as printed, quotes taken off."""
    settings: dict[str, str] = field(default_factory=dict)
    """The same by meaning, where that is known."""
    claims: list[Claim] = field(default_factory=list)
    """What is said of the global batch."""
    rest: list[str] = field(default_factory=list)
    """What is no assignment: bare words and what is not understood."""


def assignments(text: str) -> Assignments:
    """The settings in a cell's plain text."""
    found = Assignments()
    if withheld(text):
        return found
    remaining = _take_claims(normal(text)[:MAX_TEXT], found)
    if len(text) > MAX_TEXT:
        found.rest.append(text[MAX_TEXT:])
    for one in _ASSIGNMENT.finditer(remaining):
        _enter(one["name"].strip(), one["value"].strip("\"'"), found)
    leftover = _ASSIGNMENT.sub(",", remaining)
    found.rest += [word for part in re.split(r"[,;()]", leftover) if not withheld(word := part.strip(" =\"'."))]
    return found


def _enter(name: str, value: str, found: Assignments) -> None:
    if name in found.options and found.options[name] != value:
        found.rest.append(f"{name}={value}")
        return
    found.options[name] = value
    known = setting(name)
    if known is not None:
        found.settings.setdefault(known, value)


def _take_claims(text: str, found: Assignments) -> str:
    """Text without its claims on the global batch, which are entered."""
    for one in _CLAIM.finditer(text):
        claim = _claim(one)
        if claim is not None:
            found.claims.append(claim)
            text = text.replace(one[0], ",", 1)
    return text


def batch_claim(value: str) -> Claim | None:
    """What a cell of the global batch alone says: `1024`, `1024 = 4M tokens`; None for what is not understood."""
    found = _CLAIM.fullmatch(normal(f"GBS={value}")) if len(value) <= MAX_TEXT else None
    return _claim(found) if found else None


def _claim(one: re.Match[str]) -> Claim | None:
    """`GBS=1024=4M tokens`, `global bs = 4M tokens`; a plain `GBS=64` is one of sequences."""
    first, second = amount(one["first"].rstrip(",. ")), amount(one["second"]) if one["second"] else None
    if first is None or (one["second"] and second is None):
        return None
    text = one[0].strip(" ()")
    if second is not None or not _in_tokens(first):
        return Claim(text=text, global_batch=first, tokens=second)
    return Claim(text=text, global_batch=None, tokens=first)


def _in_tokens(one: Figure) -> bool:
    return (one.unit or "").lower().startswith("token")


def is_prose(text: str, names: re.Pattern[str]) -> bool:
    """Whether a text says more than what is set: `FSDP beats TP=4` sets nothing, `Megatron with TP=4, PP=2` does.

    `names`: of software, in small letters, which may be in it.
    """
    words = _DEGREE.sub(" ", _ASSIGNMENT.sub(" ", normal(text)[:MAX_TEXT]))
    return re.search(r"[^\W\d_]", names.sub(" ", _BESIDE_SETTINGS.sub(" ", words).lower())) is not None


def degrees(text: str) -> dict[str, int] | None:
    """`TP4PP1DP2`, `tp=4, pp=1`, `TP2_PP4` by their printed names in capitals; None if that is not all there is."""
    words = normal(text)[:MAX_TEXT]
    found = {one[1].upper(): int(one[2]) for one in _DEGREE.finditer(words) if int(one[2])}
    leftover = _DEGREE.sub("", words)
    return found if found and not re.search(r"[^\W_]", leftover) else None
