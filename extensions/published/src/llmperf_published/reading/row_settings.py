"""The settings of a document and of one row: the row's own cells first, then the document's defaults."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from llmperf.types import Scalar

from llmperf_published.reading import settings
from llmperf_published.reading.machine import hardware
from llmperf_published.reading.markdown import normal
from llmperf_published.reading.numbers import length, product, whole
from llmperf_published.reading.sections import Contents
from llmperf_published.reading.vocabulary import COUNTS, OTHER_DEGREES, meaning
from llmperf_published.types.row import (
    Claim,
    ConfigurationName,
    Formula,
    PublishedBatch,
    PublishedHardware,
    PublishedLayout,
)

BATCH = ("micro_batch", "gradient_accumulation", "data_parallel", "global_batch", "seq_len")
NUMBERS = frozenset([*BATCH, *settings.LAYOUT, "steps", "seed"])
"""Settings that are integers."""
SWITCHES = ("sharding_stage", "gradient_checkpointing", "attention")
MAX_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader represents exactly."""

_EXPECTED = {
    "fix_hp": "expected settings such as GAS=64",
    "parallel": "expected a layout such as TP4PP1DP2 or settings such as sharding_degree=8",
}
_DIGITS = r"\d[\d,]*(?:[kK](?![A-Za-z]))?"
_DEFAULT = re.compile(
    rf"(?:默认(?:值)?(?:为|是)?|by default|defaults? (?:value )?(?:is|to|of)|default\s*[=:]?)\s*({_DIGITS})"
    rf"|({_DIGITS})\s*by default|因此为\s*({_DIGITS})|therefore ({_DIGITS})",
    re.IGNORECASE,
)
_NUMBER = re.compile(rf"({_DIGITS})(?:\s*=.*|\s*\(.*|\s*[A-Za-z]*|\s*[,;].*)")
_DIVIDED = re.compile(r"tensor|张量|pipeline|流水|model parallel|模型并行|expert|专家|(?<![a-z])[tpe]p(?![a-z])")
_RECOMPUTED = re.compile(r"(?:gradient|activation)[ _-]?checkpoint|recompute|重计算")


def default_of(text: str, name: str = "") -> int | None:
    """The first default value that a line states. `4k` is 4096 as a sequence length."""
    read = length if name == "seq_len" else whole
    words = normal(text)
    if match := _DEFAULT.search(words):
        return read(next(filter(None, match.groups())).rstrip(","))
    alone = _NUMBER.fullmatch(words)
    return read(alone[1].rstrip(",")) if alone else None


def batch_defaults(contents: Contents) -> PublishedBatch:
    """The document's batch settings, for rows that state none."""
    defaults = {name: value for name in BATCH if (value := _batch_default(contents, name)) is not None}
    return PublishedBatch(**defaults, origins=dict.fromkeys(defaults, "batch defaults"))


def _batch_default(contents: Contents, name: str) -> int | None:
    return next(filter(None, (default_of(entry.text, name) for entry in contents.entries("batch", name))), None)


def strategy(contents: Contents) -> PublishedLayout:
    """The document's layout, for rows that state none. Sentences set nothing and are recorded."""
    layouts = []
    for entry in contents.entries("parallelism"):
        layout = settings.layout_in(entry.text)
        if not settings.is_prose(entry.text):
            layouts.append(layout)
        elif layout != PublishedLayout():
            reason = "expected settings alone such as TP=4, PP=2; a sentence sets nothing"
            contents.missing(entry.line, entry.text, reason)
    result = settings.merged(layouts)
    degrees = ("tensor_parallel", "pipeline_parallel")
    return replace(result, **{name: getattr(result, name) or _batch_default(contents, name) for name in degrees})  # type: ignore[arg-type]


def formula(contents: Contents) -> Formula | None:
    """The document's formula of the global batch; None if it prints none."""
    for entry in contents.entries("batch", "global_batch"):
        text = re.split(r"[,，。;；]|\.\s|\.$", entry.text)[0].strip()
        top, _, bottom = re.sub(r"\s*[×x*]\s*", "*", text).partition("/")
        names = re.fullmatch(r"[\w\s*()\-]+", top), re.fullmatch(r"[\w\s*()\-]*", bottom)
        if "*" in top and all(names):
            words = ([word.strip(" ()") for word in part.split("*")] for part in (top, bottom))
            named = [tuple(meaning(word) or word for word in part if word) for part in words]
            return Formula(line=entry.line, text=text, numerator=named[0], denominator=named[1])
    return None


@dataclass
class Cells:
    """The settings of one row as printed."""

    by_name: Mapping[str, str]
    """Plain cells by the meaning of their columns."""
    options: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of text and what was expected in its place."""
    unclear: set[str] = field(default_factory=set)
    """Settings that could not be parsed: the document's default does not apply to them."""

    def number(self, name: str) -> int | None:
        """The value of a setting if it is a positive integer."""
        return settings.setting_number(name, self.settings.get(name))


def cells_of(by_name: Mapping[str, str]) -> Cells:
    """The settings in a row's plain cells."""
    cells = Cells(by_name)
    if framework := settings.stated(by_name.get("framework")):
        cells.problems.append((framework, "expected the framework above the table, not in a column"))
    for column in [name for name in ("fix_hp", "parallel", "precision") if name in by_name]:
        assigned = settings.assignments(by_name[column])
        for name, value in assigned.options.items():
            if cells.options.setdefault(name, value) != value:
                cells.problems.append((f"{name}={value}", f"expected {cells.options[name]}, as in another cell"))
        for name in sorted((NUMBERS | set(SWITCHES)).intersection(assigned.settings)):
            if expected := settings.expected_value(name, assigned.settings[name]):
                cells.problems.append((f"{name}={assigned.settings[name]}", f"expected {expected}"))
                cells.unclear.add(name)
        cells.settings = assigned.settings | cells.settings
        cells.claims += assigned.claims
        if column in _EXPECTED and settings.degrees(by_name[column]) is None:
            unset = (text for text in assigned.rest if settings.layout_in(text) == PublishedLayout())
            odd = [text for text in unset if settings.precision_in(text) is None]
            cells.problems += [(", ".join(odd), f"{_EXPECTED[column]} in this cell")] * bool(odd)
    for name in dict.fromkeys((*BATCH, *settings.LAYOUT, *OTHER_DEGREES, *SWITCHES, *COUNTS)):
        text = settings.stated(by_name.get(name))
        if text is None or (name in COUNTS and hardware(text, None).world_size):
            continue  # `8x A100` below `GPUs`
        if name == "sharding_degree" and text == "0":
            continue  # `FSDP` 0: it is not used
        claim = settings.batch_claim(text) if name == "global_batch" else None
        if claim is not None:  # a rule compares it with the other settings
            cells.claims.append(claim)
        elif expected := settings.expected_value(name, text):
            cells.problems.append((text, f"expected {expected} for {name}"))
            cells.unclear.add(name)
            continue
        before = cells.settings.setdefault(name, text)
        if before != text and settings.setting_number(name, before) != settings.setting_number(name, text):
            cells.problems.append((text, f"expected {before} for {name}, as in another cell"))
    return cells


def layout(cells: Cells, default: PublishedLayout, name: ConfigurationName | None) -> PublishedLayout:
    """The row's layout: from its parallel cell, its settings, its configuration's name, the document, in this order."""
    own_settings = {key: value for key in settings.LAYOUT if (value := cells.number(key))}
    stage = settings.stage_in(cells.settings.get("sharding_stage", ""))
    parallel, fix_hp = (settings.layout_in(cells.by_name.get(column, "")) for column in ("parallel", "fix_hp"))
    named = settings.layout_of(name.degrees) if name else PublishedLayout()
    other = {short: value for key, short in OTHER_DEGREES.items() if (value := cells.number(key))}
    columns = PublishedLayout(**own_settings, sharding_stage=stage, other=other)
    own = settings.merged([parallel, columns, fix_hp, named])
    if own != PublishedLayout() and own.data_parallel is None:
        default = replace(default, data_parallel=None)  # it belongs to the document's own layout
    unclear = dict.fromkeys(cells.unclear.intersection([*settings.LAYOUT, "sharding_stage"]))
    return settings.merged([own, replace(default, **unclear)])  # type: ignore[arg-type]


def batch(
    cells: Cells, defaults: PublishedBatch, where: PublishedHardware, ranks: PublishedLayout, contents: Contents,
    throughput: str | None,
) -> PublishedBatch:  # fmt: skip
    """The row's batch settings, each with its origin.

    Data parallel is as printed, otherwise ranks / (TP x PP x CP). The global batch is computed; if a factor is missing,
    it is as the row claims or the document states it.
    `throughput` is the expression of the throughput cell, which may contain the sequence length.
    """
    values: dict[str, tuple[int, str]] = {}
    for name in BATCH:
        own, default = cells.number(name), getattr(defaults, name)
        if own:
            values[name] = own, "fix_hp"
        elif default is not None and name not in cells.unclear and name != "global_batch":
            values[name] = default, defaults.origins[name]
    world = where.nodes * where.devices_per_node if where.nodes and where.devices_per_node else None
    if not cells.unclear.intersection([*settings.LAYOUT, *OTHER_DEGREES]):
        tensor, pipeline, context = ranks.tensor_parallel, ranks.pipeline_parallel, ranks.other.get("CP", 1)
        if ranks.data_parallel:
            values["data_parallel"] = ranks.data_parallel, "as printed"
        elif "data_parallel" not in values and world and ranks.other.get("EP", 1) <= 1:
            model = (tensor or 1) * (pipeline or 1) * context  # a degree that the document never mentions is 1
            mentioned = None in (tensor, pipeline) and _DIVIDED.search(contents.words("parallelism")) is not None
            if not mentioned and world % model == 0:
                how = f"nodes x devices / (TP x PP{' x CP' * (context > 1)})"
                values["data_parallel"] = world // model, how
    counts = [values[name][0] for name in ("micro_batch", "gradient_accumulation", "data_parallel") if name in values]
    claims = (claim.global_batch.value for claim in cells.claims if claim.global_batch)
    claimed = next((value for value in claims if value), None)
    if len(counts) == 3 and math.prod(counts) <= MAX_INTEGER:
        values["global_batch"] = math.prod(counts), "micro batch x gradient accumulation x data parallel"
    elif claimed and claimed == int(claimed) <= MAX_INTEGER:
        values["global_batch"] = int(claimed), "as claimed"
    elif "global_batch" not in values and defaults.global_batch:
        values["global_batch"] = defaults.global_batch, "batch defaults"
    parts = None if "seq_len" in values else product(throughput or "")
    if parts is not None and parts[1] == world:  # 16.67 * 2048 / 8
        lengths = [int(factor) for factor in parts[0] if factor.is_integer()]
        values |= {"seq_len": (lengths[-1], "throughput expression")} if lengths else {}
    return PublishedBatch(
        **{name: value for name, (value, _) in values.items()},
        origins={name: origin for name, (_, origin) in values.items()},
    )


def free_settings(cells: Cells, contents: Contents, precision: str | None, dataset: str | None) -> dict[str, Scalar]:
    """Path to value of the settings outside layout and batch."""
    free: dict[str, Scalar | None] = {"contract.precision": precision, "contract.dataset": dataset}
    for name in ("steps", "seed"):
        free[f"contract.{name}"] = cells.number(name)
    optimisation = contents.words("optimisation")
    recomputed = settings.truth(cells.settings.get("gradient_checkpointing"))
    if recomputed is None and _RECOMPUTED.search(optimisation):
        recomputed = True
    free["tuning.gradient_checkpointing"] = recomputed
    attention = cells.settings.get("attention", "")
    flash = True if "flash" in attention.lower() else settings.truth(attention)
    if flash or (flash is None and re.search(r"flash[ _-]?att", optimisation)):
        free["tuning.attention"] = "flash"
    fused = settings.truth(cells.settings.get("fused_rms_norm"))
    if fused is not None:
        free["tuning.fused_ops"] = "rms_norm" if fused else ""
    return {path: value for path, value in free.items() if value is not None}
