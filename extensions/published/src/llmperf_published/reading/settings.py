"""What a document says of batch and layout: its batch defaults, its strategy, its formula for the global batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, cast

from llmperf_published.reading.assignments import assignments, degrees, is_prose
from llmperf_published.reading.cell_text import normal, withheld
from llmperf_published.reading.library_match import BESIDE
from llmperf_published.reading.numbers import length, whole
from llmperf_published.reading.sections import Contents
from llmperf_published.reading.vocabulary import meaning
from llmperf_published.types.document import Formula, PublishedBatch, PublishedLayout

Stage = Literal[0, 1, 2, 3]

_DIGITS = r"\d[\d,]*(?:[kK](?![A-Za-z]))?"
_DEFAULT = re.compile(
    rf"(?:默认(?:值)?(?:为|是)?|by default|defaults? (?:value )?(?:is|to|of)|default\s*[=:]?)\s*({_DIGITS})"
    rf"|({_DIGITS})\s*by default|因此为\s*({_DIGITS})|therefore ({_DIGITS})",
    re.IGNORECASE,
)
_NUMBER = re.compile(rf"({_DIGITS})(?:\s*=.*|\s*\(.*|\s*[A-Za-z]*|\s*[,;].*)")
_ZERO = re.compile(
    r"(?<![a-z])zero[\s_-]*(?:dp)?[\s_-]*(?:stage|optimization stage|o|-)?[\s_-]*([0-3])(?!\d)", re.IGNORECASE
)
_STAGE = re.compile(r"(?:stage|o)?[\s_-]*([0-3])", re.IGNORECASE)
_PRECISION = re.compile(
    r"(?<![a-z0-9])(?:(bf16|bfloat16)|(fp16|float16|half)|(tf32)|(fp32|float32|single)"
    r"|(fp8|float8|mxfp\d|fp4|int8))(?![a-z0-9])",
    re.IGNORECASE,
)
_TRUTHS = {
    **dict.fromkeys(("true", "yes", "y", "1", "on", "是", "√", "✓", "✔", "已对齐", "aligned", "pass", "passed"), True),
    **dict.fromkeys(("false", "no", "n", "0", "off", "否", "x", "未对齐", "not aligned", "fail", "failed"), False),
}
_PRECISIONS = ("bf16", "fp16", "tf32", "fp32", None)
"""By the groups of the pattern; the last are none that a run has for its own, and fix none beside another."""


def default_of(text: str, name: str = "") -> int | None:
    """The number that a line gives as default; the first, where there are more. `4k` is 4096 as a sequence length."""
    read = length if name == "seq_len" else whole
    words = normal(text)
    found = _DEFAULT.search(words)
    if found:
        return read(next(filter(None, found.groups())).rstrip(","))
    alone = _NUMBER.fullmatch(words)
    return read(alone[1].rstrip(",")) if alone else None


def batch_defaults(told: Contents) -> PublishedBatch:
    """Batch settings where a row says nothing else."""
    names = ("micro_batch", "gradient_accumulation", "data_parallel", "global_batch", "seq_len")
    found = {name: value for name in names if (value := _batch_default(told, name)) is not None}
    return PublishedBatch(**found, origins=dict.fromkeys(found, "batch defaults"))


def _batch_default(told: Contents, name: str) -> int | None:
    return next(
        (value for one in told.entries("batch", name) if (value := default_of(one.text, name)) is not None), None
    )


def strategy(told: Contents) -> PublishedLayout:
    """The layout where a row says nothing else."""
    entries = [entry for one in told.sections if one.kind == "parallelism" for entry in one.entries]
    found = merged([layout_in(entry.text) for entry in entries if not is_prose(entry.text, BESIDE)])
    for entry in entries:
        if is_prose(entry.text, BESIDE) and layout_in(entry.text) != PublishedLayout():
            told.missing(entry.line, entry.text, "expected settings alone such as TP=4, PP=2; a sentence sets nothing")
    tensor, pipeline = _batch_default(told, "tensor_parallel"), _batch_default(told, "pipeline_parallel")
    return PublishedLayout(
        tensor_parallel=found.tensor_parallel or tensor,
        pipeline_parallel=found.pipeline_parallel or pipeline,
        data_parallel=found.data_parallel,
        sharding_stage=found.sharding_stage,
        sharding_degree=found.sharding_degree,
        other=found.other,
    )


def merged(layouts: Sequence[PublishedLayout]) -> PublishedLayout:
    """For each degree the first layout that gives it."""
    known: dict[str, int] = {}
    for name in (*_NAMED, "sharding_stage"):
        said = next((value for one in layouts if (value := getattr(one, name)) is not None), None)
        if said is not None:
            known[name] = said
    other = {name: value for one in reversed(layouts) for name, value in one.other.items()}
    return PublishedLayout(**known, other=other)  # type: ignore[arg-type]


def layout_in(text: str) -> PublishedLayout:
    """The degrees in a text: `TP4PP1DP2`, `sharding="stage2", sharding_degree=8`, `ZeRO-DP O3, DP_SIZE=8`."""
    short = degrees(text)
    if short is not None:
        return _by_degrees(short)
    said = assignments(text).settings
    named = {name: whole(said[name]) for name in _NAMED if name in said}
    return PublishedLayout(**named, sharding_stage=_stage(said.get("sharding_stage"), text))  # type: ignore[arg-type]


_NAMED = ("tensor_parallel", "pipeline_parallel", "data_parallel", "sharding_degree")
_SHORT = {"TP": "tensor_parallel", "MP": "tensor_parallel", "PP": "pipeline_parallel", "DP": "data_parallel"}


def _by_degrees(short: Mapping[str, int]) -> PublishedLayout:
    """SP is a sharding degree only beside SH, the sharding stage; elsewhere it may be sequence parallel."""
    known = {_SHORT[name]: value for name, value in short.items() if name in _SHORT}
    other = {name: value for name, value in short.items() if name not in _SHORT}
    if "SH" in other:
        known["sharding_degree"] = other.pop("SP", 1)
        stage = other.pop("SH")
        known |= {"sharding_stage": stage} if stage in (0, 1, 2, 3) else {}
    return PublishedLayout(**known, other=other)  # type: ignore[arg-type]


def by_configuration(short: Mapping[str, int]) -> PublishedLayout:
    """The layout that a configuration's name gives."""
    return _by_degrees({name: value for name, value in short.items() if value})


def _stage(value: str | None, text: str) -> Stage | None:
    return stage_in(value) if value is not None else _as_stage(_ZERO.search(normal(text)))


def stage_in(value: str) -> Stage | None:
    """The sharding stage that a setting's value says: `2`, `stage2`, `O3`, `ZeRO-1`."""
    words = normal(value)
    return _as_stage(_STAGE.fullmatch(words) or _ZERO.fullmatch(words))


def _as_stage(found: re.Match[str] | None) -> Stage | None:
    return cast("Stage", int(found[1])) if found else None


def formula(told: Contents) -> Formula | None:
    """How the document says that the global batch is computed."""
    for entry in told.entries("batch", "global_batch"):
        text = re.split(r"[,，。;；]|\.\s|\.$", entry.text)[0].strip()
        top, _, bottom = re.sub(r"\s*[×x*]\s*", "*", text).partition("/")
        names = re.fullmatch(r"[\w\s*()\-]+", top), re.fullmatch(r"[\w\s*()\-]*", bottom)
        if "*" in top and all(names):
            return Formula(line=entry.line, text=text, numerator=_factors(top), denominator=_factors(bottom))
    return None


def _factors(text: str) -> tuple[str, ...]:
    """Factors by their meaning, by their printed name where that is not known."""
    words = [word.strip(" ()") for word in text.split("*")]
    return tuple(meaning(word) or word for word in words if word)


def precision_in(text: str | None) -> str | None:
    """The one precision that a text names; None where it names none, or several, or only says `amp`."""
    found = precisions_in(text)
    return found.pop() if len(found) == 1 else None


def precisions_in(text: str | None) -> set[str | None]:
    """Every precision that a text names; None stands for those of 8 bits and fewer."""
    return {_PRECISIONS[index] for one in _PRECISION.findall(text or "") for index, word in enumerate(one) if word}


def truth(text: str | None) -> bool | None:
    """`True`, `yes`, `是`; None for what is neither that nor its opposite."""
    return _TRUTHS.get(normal(text or "").lower().strip(" ."))


def told(text: str | None) -> str | None:
    """A text that says something itself: neither withheld nor only a pointer to the table of results."""
    if text is None or withheld(text) or re.search(r"见\s*[\"“]|[,;]\s*见|,\s*see ", text, re.IGNORECASE):
        return None
    return text
