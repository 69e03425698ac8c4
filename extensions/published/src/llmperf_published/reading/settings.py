"""Settings as text states them: `MPE=512 LBS=12`, `TP4PP1DP2`, `ZeRO-DP O3`, `bf16`, `GAS=512(GBS=1024=4M tokens)`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from llmperf_published.reading.markdown import normal, withheld
from llmperf_published.reading.names import software_words
from llmperf_published.reading.numbers import figure, length, whole
from llmperf_published.reading.vocabulary import phrase, setting
from llmperf_published.types.row import Claim, PublishedLayout

Stage = Literal[0, 1, 2, 3]

MAX_TEXT = 4000
"""Longest cell that is parsed, in characters."""
LAYOUT = ("tensor_parallel", "pipeline_parallel", "data_parallel", "sharding_degree")

_NAME = r"(?<![\w.\-])[A-Za-z_\u4e00-\u9fff][\w.\-]{0,60}(?:\s(?:bs|batch|size|batch\s?size|parallel|length))*"
_VALUE = r"\"[^\"]*\"|'[^']*'|(?:[^\s,;()\[\]\"'=+]|\+(?!\s*[A-Za-z_]\w*\s*[=:]))+"
"""`TP=4+FSDP=2` has two settings, `bf16+fp8` is one value."""
_ASSIGNMENT = re.compile(rf"(?P<name>{_NAME})\s*[=:]\s*(?P<value>{_VALUE})", re.IGNORECASE)
_CLAIM = re.compile(
    r"\(?\s*(?P<name>gbs|global\s?_?-?(?:bs|batch(?:\s?_?-?size)?))\s*[=:]\s*(?P<first>\d[\d.,]*\s*[kKmM]?(?:\s*tokens?)?)"
    r"(?:\s*=\s*(?P<second>\d[\d.,]*\s*[kKmM]?\s*tokens?))?\s*\)?",
    re.IGNORECASE,
)
_DEGREE = re.compile(r"(FSDP(?=[\s=_:])|TP|PP|DP|SP|SD|SH|EP|CP|VPP?|MP)\s*[=_:]?\s*(\d{1,5})", re.IGNORECASE)
_JOINED_STAGE = re.compile(r"(?<=\d)_stage([0-3])(?![\d.])", re.IGNORECASE)
"""The sharding stage behind degrees: `tp2sd4_stage2`."""
_SHORT = {
    "TP": "tensor_parallel", "MP": "tensor_parallel", "PP": "pipeline_parallel", "DP": "data_parallel",
    "FSDP": "sharding_degree", "SD": "sharding_degree",
}  # fmt: skip
_ZERO = re.compile(
    r"(?<![a-z])zero[\s_-]*(?:dp)?[\s_-]*(?:stage|optimization stage|o|-)?[\s_-]*([0-3])(?!\d)", re.IGNORECASE
)
_STAGE = re.compile(r"(?:stage|o)?[\s_-]*([0-3])", re.IGNORECASE)
_PRECISION = re.compile(
    r"(?<![a-z0-9])(?:(bf16|bfloat16)|(fp16|float16|half)|(tf32)|(fp32|float32|single)"
    r"|(fp8|float8|mxfp\d|fp4|int8))(?![a-z0-9])",
    re.IGNORECASE,
)
_PRECISIONS = ("bf16", "fp16", "tf32", "fp32", None)
"""By the groups of the pattern. None means 8 bits or fewer: a run uses such a type beside another one."""
_TRUTHS = {
    **dict.fromkeys(("true", "yes", "y", "1", "on", "是", "√", "✓", "✔", "已对齐", "aligned", "pass", "passed"), True),
    **dict.fromkeys(("false", "no", "n", "0", "off", "否", "x", "未对齐", "not aligned", "fail", "failed"), False),
}
_SWITCHES = ("gradient_checkpointing", "fused_rms_norm")


@dataclass
class Assignments:
    """The settings of one cell."""

    options: dict[str, str] = field(default_factory=dict)
    """Name to value, both as printed, without quotes."""
    settings: dict[str, str] = field(default_factory=dict)
    """Meaning to value, for names with a known meaning."""
    claims: list[Claim] = field(default_factory=list)
    """Statements on the global batch."""
    rest: list[str] = field(default_factory=list)
    """Text that assigns nothing or could not be parsed."""


def assignments(text: str) -> Assignments:
    """The settings in a cell's plain text."""
    result = Assignments()
    if withheld(text):
        return result
    remaining = normal(text)[:MAX_TEXT]
    for match in _CLAIM.finditer(remaining):
        if (claim := _claim(match)) is not None:
            result.claims.append(claim)
            remaining = remaining.replace(match[0], ",", 1)
    if len(text) > MAX_TEXT:
        result.rest.append(text[MAX_TEXT:])
    for match in _ASSIGNMENT.finditer(remaining):
        name, value = match["name"].strip(), match["value"].strip("\"'")
        if result.options.setdefault(name, value) != value:
            result.rest.append(f"{name}={value}")
        elif (known := setting(name)) is not None:
            result.settings.setdefault(known, value)
    leftover = _ASSIGNMENT.sub(",", remaining)
    result.rest += [word for part in re.split(r"[,;()]", leftover) if not withheld(word := part.strip(" =\"'.+"))]
    return result


def batch_claim(value: str) -> Claim | None:
    """A cell in a column of the global batch: `1024`, `1024 = 4M tokens`; None if it cannot be parsed."""
    match = _CLAIM.fullmatch(normal(f"GBS={value}")) if len(value) <= MAX_TEXT else None
    return _claim(match) if match else None


def _claim(match: re.Match[str]) -> Claim | None:
    """`GBS=1024=4M tokens`, `global bs = 4M tokens`; a number without a unit counts sequences."""
    first, second = figure(match["first"].rstrip(",. ")), figure(match["second"]) if match["second"] else None
    if first is None or (match["second"] and second is None):
        return None
    text = match[0].strip(" ()")
    in_tokens = (first.unit or "").lower().startswith("token")
    if second is None and not in_tokens and (first.scale > 1e3 or not float(first.value or 0).is_integer()):
        return None  # `4M` may be sequences or tokens
    if second is not None or not in_tokens:
        return Claim(text=text, global_batch=first, tokens=second)
    return Claim(text=text, global_batch=None, tokens=first)


def is_prose(text: str) -> bool:
    """Check whether a text has words beside its settings: `FSDP beats TP=4`, not `Megatron with TP=4, PP=2`."""
    words = _DEGREE.sub(" ", _ASSIGNMENT.sub(" ", normal(text)[:MAX_TEXT]))
    return (
        re.search(r"[^\W\d_]", software_words().sub(" ", phrase("beside_settings").sub(" ", words).lower())) is not None
    )


def degrees(text: str) -> dict[str, int] | None:
    """`TP4PP1DP2`, `tp=4, pp=1`, `TP2_PP4` as printed names in capitals; None if the text has anything else."""
    words = _JOINED_STAGE.sub(r"SH\1", normal(text)[:MAX_TEXT])
    result = {
        match[1].upper().replace("VPP", "VP"): int(match[2]) for match in _DEGREE.finditer(words) if int(match[2])
    }
    if re.fullmatch(r"fsdp [12]", words.strip(), re.IGNORECASE):
        return None  # perhaps a version of FSDP
    return result if result and not re.search(r"[^\W_]", _DEGREE.sub("", words)) else None


def layout_in(text: str) -> PublishedLayout:
    """The degrees in a text: `TP4PP1DP2`, `sharding="stage2", sharding_degree=8`, `ZeRO-DP O3, DP_SIZE=8`."""
    words = normal(text)[:MAX_TEXT]
    short = degrees(words)
    if short is not None:
        return layout_of(short)
    # `zero1(dp2)+tp2+pp4`, `tp2, pp8, mbs=1, recompute=full`: each part that has degrees and nothing else
    parts = map(degrees, re.split(r"[,;+()]", _ASSIGNMENT.sub(",", _ZERO.sub(",", words))))
    by_part = layout_of({name: degree for part in parts if part for name, degree in part.items()})
    settings = assignments(text).settings
    named = {name: whole(settings[name]) for name in LAYOUT if name in settings}
    value = settings.get("sharding_stage")
    stage = _stage(_ZERO.search(normal(text))) if value is None else stage_in(value)
    own = PublishedLayout(**named, sharding_stage=stage)  # type: ignore[arg-type]
    return merged([own, by_part])


def layout_of(short: Mapping[str, int]) -> PublishedLayout:
    """The layout of degrees by their short names.

    SP is a sharding degree only beside SH, the sharding stage; elsewhere it may be sequence parallel.
    """
    known = {_SHORT[name]: value for name, value in short.items() if value and name in _SHORT}
    other = {name: value for name, value in short.items() if value and name not in _SHORT}
    if "SH" in other:
        known.setdefault("sharding_degree", other.pop("SP", 1))
        stage = other.pop("SH")
        known |= {"sharding_stage": stage} if stage in (0, 1, 2, 3) else {}
    return PublishedLayout(**known, other=other)  # type: ignore[arg-type]


def merged(layouts: Sequence[PublishedLayout]) -> PublishedLayout:
    """Each degree from the first layout that states it."""
    known = {
        name: value
        for layout in reversed(layouts)
        for name in (*LAYOUT, "sharding_stage")
        if (value := getattr(layout, name)) is not None
    }
    other = {name: value for layout in reversed(layouts) for name, value in layout.other.items()}
    return PublishedLayout(**known, other=other)


def stage_in(value: str) -> Stage | None:
    """The sharding stage in the value of a setting: `2`, `stage2`, `O3`, `ZeRO-1`."""
    words = normal(value)
    return _stage(_STAGE.fullmatch(words) or _ZERO.fullmatch(words))


def _stage(match: re.Match[str] | None) -> Stage | None:
    return cast("Stage", int(match[1])) if match else None


def precision_in(text: str | None) -> str | None:
    """The one precision that a text names; None if it names none or several, or only `amp`."""
    named = precisions_in(text)
    return named.pop() if len(named) == 1 else None


def precisions_in(text: str | None) -> set[str | None]:
    """Every precision that a text names; None means 8 bits or fewer."""
    groups = _PRECISION.findall(text or "")
    return {_PRECISIONS[index] for words in groups for index, word in enumerate(words) if word}


def truth(text: str | None) -> bool | None:
    """`True`, `yes`, `是`, or the opposite; None for anything else."""
    return _TRUTHS.get(normal(text or "").lower().strip(" ."))


def setting_number(name: str, text: str | None) -> int | None:
    """A positive integer; a sequence length may also be `4K`, which is 4096, or `4096 tokens`."""
    words = normal(text or "")
    return length(words) if name == "seq_len" else whole(words)


def expected_value(name: str, text: str) -> str | None:
    """Description of the values that a setting accepts, for one that it does not; None for an accepted value."""
    if name == "sharding_stage":
        return None if stage_in(text) is not None else "a sharding stage from 0 to 3"
    if name == "attention":
        return None if truth(text) is not None or "flash" in text.lower() else "true, false or flash"
    if name in _SWITCHES:
        return None if truth(text) is not None else "true or false"
    return None if setting_number(name, text) is not None else "a whole number above 0"


def stated(text: str | None) -> str | None:
    """The text if it states something itself; None if it is withheld or only refers to the table of results."""
    if text is None or withheld(text) or re.search(r"见\s*[\"“]|[,;]\s*见|,\s*see ", text, re.IGNORECASE):
        return None
    return text
