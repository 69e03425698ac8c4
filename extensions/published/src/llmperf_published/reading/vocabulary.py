"""Meanings of headings, labels, columns and parameter names of published documents, from `vocabulary.toml`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from llmperf import read_toml

from llmperf_published.reading.markdown import normal, plain
from llmperf_published.types.document import Table

HeadingKind = Literal[
    "title", "environment", "hardware", "software", "parallelism", "optimisation", "running", "batch", "general",
    "performance", "notes",
]  # fmt: skip
SETTINGS = frozenset(
    [
        "micro_batch", "seq_len", "gradient_accumulation", "global_batch", "tensor_parallel", "pipeline_parallel",
        "data_parallel", "world_size", "sharding_stage", "sharding_degree", "gradient_checkpointing", "attention",
        "fused_rms_norm", "steps", "seed", "precision", "dataset",
    ]
)  # fmt: skip
"""Meanings that a row can set."""
OTHER_DEGREES = {"context_parallel": "CP", "expert_parallel": "EP", "virtual_pipeline": "VP"}
"""Degrees that a layout holds by their short names."""
COUNTS = ("nodes", "devices_per_node", "device_count", "world_size")
"""Columns of counts: nodes, accelerators per node, accelerators (per node or in all), accelerators in all."""


@cache
def vocabulary(part: str) -> Any:
    """A part of `vocabulary.toml`."""
    return read_toml(Path(__file__).with_name("vocabulary.toml"))[part]


@cache
def phrase(name: str) -> re.Pattern[str]:
    """The pattern of a phrase over lower-case text."""
    return re.compile(vocabulary("phrases")[name], re.IGNORECASE)


@cache
def meanings(part: str) -> dict[str, str]:
    """Word to its meaning, in a part of the vocabulary that lists the words of each."""
    return {word: meaning for meaning, words in vocabulary(part).items() for word in words.split()}


def _lower(text: str) -> str:
    return normal(plain(text[:400])).lower()


def squeezed(text: str) -> str:
    """A label as it is looked up: ASCII signs, lower case, without spaces, underscores, hyphens and emphasis."""
    return re.sub(r"[\s_\-*`'\"]+", "", _lower(text)).strip(":.,")


def meaning(label: str) -> str | None:
    """The meaning of a label or header; None if unknown.

    The whole label is looked up first, then the part before a bracket, the text in brackets, and the first words.
    """
    names, text = meanings("labels"), squeezed(label)
    keys = (text, re.sub(r"\(.*", "", text), *re.findall(r"\(([^()]*)\)", text), re.split(r"[,:(]", text)[0])
    return next((names[key] for key in keys if key in names), None)


def column_meaning(header: str) -> str | None:
    """The meaning of a column; `evaluation` for accuracies and other scores."""
    known, unit = meaning(header), re.search(r"\(([^()]{1,40})\)", header)
    if unit and meaning(unit[1]) == "flops":  # `Throughput (TFLOPs/GPU)`
        return "flops"
    if known is not None:
        return None if known == "throughput" and names_inference(header) else known
    if throughput_words(header).named:
        return "throughput"
    return "evaluation" if phrase("evaluation").search(_lower(header)) else None


def setting(name: str) -> str | None:
    """The setting that a parameter of this name sets; None if unknown."""
    known = meanings("labels").get(squeezed(name))
    return known if known in SETTINGS else None


def is_bullet_heading(text: str) -> bool:
    """Check whether a bullet is a heading: one of the known words and nothing else."""
    return len(text) <= 80 and phrase("bullet_heading").fullmatch(_lower(text).strip(" :.")) is not None


def heading_kind(text: str) -> HeadingKind | None:
    """The kind of a heading; None if unknown."""
    words = _lower(text).strip(" :.")
    return next((kind for kind, pattern in vocabulary("headings").items() if re.search(pattern, words)), None)


def names_inference(text: str) -> bool:
    """Check whether a heading or header is on inference and not also on training."""
    words = _lower(text)
    return phrase("inference").search(words) is not None and phrase("training").search(words) is None


def is_on_inference(table: Table) -> bool:
    """Check whether the heading, a header or a cell says that a table is on inference.

    A cell may name inference, a program that does nothing else, or a test such as `pp512`.
    """
    if names_inference(table.heading) or any(phrase("served").search(_lower(one.header)) for one in table.columns):
        return True
    texts = map(_lower, {cell[:400] for row in table.rows for cell in row.cells})
    named = (phrase("test").fullmatch(text) or phrase("engine").search(text) or names_inference(text) for text in texts)
    return any(named)


Scope = Literal["device", "node", "all", "unclear"]
_PIECE = re.compile(r"[a-z][a-z0-9]*|\d+|[\u4e00-\u9fff]+|[/*·()]")
_SIGNS = {"per": "/", "tokens": "T", "second": "S", "device": "D", "node": "N", "total": "A", "throughput": "H",
          "neutral": "", "precision": "P"}  # fmt: skip
"""Kinds of word as signs: `Throughput (tokens/s/GPU)` is `H(T/S/D)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputWords:
    """Words of a text about a throughput."""

    named: bool
    """They name a throughput, and nothing else such as a variant: `tokens/s`, but not `With CP tokens/s`."""
    rate: bool
    """They contain tokens and seconds: `tokens/s`."""
    scope: Scope | None
    """`unclear` if a rate stands beside words that are not known; None if the text says nothing on it."""


@cache
def throughput_words(text: str, prose: bool = False) -> ThroughputWords:
    """The scope of a header or a unit; in prose, words that are not known have no effect."""
    known = meanings("throughput")
    chinese = sorted((word for word in known if not word.isascii()), key=len, reverse=True)
    signs = ""
    for piece in _PIECE.findall(_lower(text)):
        for word in [piece] if piece.isascii() else re.findall("|".join([*chinese, "."]), piece):
            kind = known.get(word, "")
            sign = _SIGNS.get(kind, word if word in "/*·()" else "?")
            if signs.endswith("/") and word == "p":
                sign = "D"
            elif word.isdecimal() and not signs.endswith("/"):
                sign = ""
            signs += {"tgs": "T/S/D", "tps": "?T/S", "t": "T"}.get(word, sign)
    signs = re.sub("(?<=S)[*·]", "/", signs.replace("/(", "/"))
    odd, rate = set(signs) & set("?P"), "T" in signs and "/S" in signs
    if prose:
        signs = signs.replace("?", "")
    scope: Scope | None = "all" if rate else None
    if re.search(r"/N?\?", signs):
        scope = "unclear"
    elif "/D" in signs:
        scope = "unclear" if "/N" in signs and "S/D" not in signs else "device"
    elif "/N" in signs:
        scope = "unclear" if prose else "node"
    elif rate and ("?" in signs or ("A" not in signs and re.search("[DN]", signs) and not prose)):
        scope = "unclear"
    return ThroughputWords(named=not odd and (rate or ("H" in signs and scope is not None)), rate=rate, scope=scope)
