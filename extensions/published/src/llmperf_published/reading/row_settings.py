"""What one row was run with: its own cells first, then its document's defaults."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from llmperf.types.spec import Scalar

from llmperf_published.reading.assignments import Assignments, assignments, batch_claim
from llmperf_published.reading.expressions import sequence_length
from llmperf_published.reading.machine import configuration_name
from llmperf_published.reading.sections import Contents
from llmperf_published.reading.setting_values import expected_of, setting_number
from llmperf_published.reading.settings import by_configuration, layout_in, merged, precision_in, stage_in, told, truth
from llmperf_published.reading.vocabulary import COUNTS
from llmperf_published.types.document import (
    Claim,
    ConfigurationName,
    PublishedBatch,
    PublishedHardware,
    PublishedLayout,
)

BATCH = ("micro_batch", "gradient_accumulation", "data_parallel", "global_batch", "seq_len")
LAYOUT = ("tensor_parallel", "pipeline_parallel", "data_parallel", "sharding_degree")
_DIVIDED = re.compile(r"tensor|张量|pipeline|流水|model parallel|模型并行|expert|专家|(?<![a-z])[tpe]p(?![a-z])")

EXPECTED = {
    "fix_hp": "expected settings such as GAS=64",
    "parallel": "expected a layout such as TP4PP1DP2 or settings such as sharding_degree=8",
}
NUMBERS = frozenset([*BATCH, *LAYOUT, "steps", "seed"])
"""Settings that are whole numbers."""
SWITCHES = ("sharding_stage", "gradient_checkpointing", "attention")
MAX_INTEGER = 2**53 - 1
"""What every JSON reader keeps exactly."""
_RECOMPUTED = re.compile(r"(?:gradient|activation)[ _-]?checkpoint|recompute|重计算")


@dataclass
class Cells:
    """A row's settings as they are printed."""

    by_name: Mapping[str, str]
    """Plain cells by what their columns mean."""
    options: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    """Text and what was expected in its place."""
    unclear: set[str] = field(default_factory=set)
    """Settings that the row gives in a way that is not understood: no default stands for them."""

    def number(self, name: str) -> int | None:
        """What a setting gives, where that is a whole number."""
        return setting_number(name, self.settings.get(name))


def cells_of(by_name: Mapping[str, str]) -> Cells:
    """Take the cells apart that set something."""
    found = Cells(by_name)
    for name in ("fix_hp", "parallel", "precision"):
        if name in by_name:
            _enter(assignments(by_name[name]), name, found)
    for name in dict.fromkeys((*BATCH, *LAYOUT, *SWITCHES, *COUNTS)):
        if (value := told(by_name.get(name))) is not None:
            _enter_column(name, value, found)
    return found


def _enter_column(name: str, value: str, found: Cells) -> None:
    """A column of one setting. One of the global batch is a claim, which a rule holds against the other settings."""
    claim = batch_claim(value) if name == "global_batch" else None
    if claim is not None:
        found.claims.append(claim)
    elif expected := expected_of(name, value):
        found.problems.append((value, f"expected {expected} for {name}"))
        found.unclear.add(name)
        return
    before = found.settings.setdefault(name, value)
    if before != value and setting_number(name, before) != setting_number(name, value):
        found.problems.append((value, f"expected {before} for {name}, as in another cell"))


def _enter(one: Assignments, column: str, found: Cells) -> None:
    for name, value in one.options.items():
        if found.options.setdefault(name, value) != value:
            found.problems.append((f"{name}={value}", f"expected {found.options[name]}, as in another cell"))
    for name in sorted((NUMBERS | set(SWITCHES)).intersection(one.settings)):
        if expected := expected_of(name, one.settings[name]):
            found.problems.append((f"{name}={one.settings[name]}", f"expected {expected}"))
            found.unclear.add(name)
    found.settings |= {name: value for name, value in one.settings.items() if name not in found.settings}
    found.claims += one.claims
    if column in EXPECTED:
        odd = [text for text in one.rest if layout_in(text) == PublishedLayout() and precision_in(text) is None]
        found.problems += [(", ".join(odd), f"{EXPECTED[column]} in this cell")] * bool(odd)


def layout(found: Cells, strategy: PublishedLayout, name: ConfigurationName | None) -> PublishedLayout:
    """From the parallel cell, the settings, the name of the configuration, the document's strategy, in this order."""
    said = {key: value for key in LAYOUT if (value := found.number(key))}
    stage = stage_in(found.settings.get("sharding_stage", ""))
    cells = [layout_in(found.by_name.get(column, "")) for column in ("parallel", "fix_hp")]
    named = by_configuration(name.degrees) if name else PublishedLayout()
    own = merged([cells[0], PublishedLayout(**said, sharding_stage=stage), cells[1], named])  # type: ignore[arg-type]
    if own != PublishedLayout() and own.data_parallel is None:
        strategy = replace(strategy, data_parallel=None)  # the document's is that of its default layout
    unclear = dict.fromkeys(found.unclear.intersection([*LAYOUT, "sharding_stage"]))
    return merged([own, replace(strategy, **unclear)])  # type: ignore[arg-type]


def batch(
    found: Cells, defaults: PublishedBatch, where: PublishedHardware, ranks: PublishedLayout, contents: Contents,
    throughput: str | None,
) -> PublishedBatch:  # fmt: skip
    """The batch settings, each with where it comes from; the global batch is computed where that can be done."""
    values: dict[str, int] = {}
    origins: dict[str, str] = {}
    for name in BATCH:
        own = found.number(name)
        value = own or (None if name in found.unclear else getattr(defaults, name))
        if value is not None and (own or name != "global_batch"):
            values[name], origins[name] = value, "fix_hp" if own else defaults.origins[name]
    if not found.unclear.intersection(LAYOUT):
        _data_parallel(values, origins, where, ranks, contents)
    _global_batch(values, origins, found, defaults)
    if "seq_len" not in values and (length := _length_in(throughput, where)):
        values["seq_len"], origins["seq_len"] = length, "throughput expression"
    return PublishedBatch(**values, origins=origins)


def _data_parallel(
    values: dict[str, int],
    origins: dict[str, str],
    where: PublishedHardware,
    ranks: PublishedLayout,
    contents: Contents,
) -> None:
    """As printed, else what the ranks leave: a degree that is nowhere spoken of is 1."""
    if ranks.data_parallel:
        values["data_parallel"], origins["data_parallel"] = ranks.data_parallel, "as printed"
    if "data_parallel" in values or not where.nodes or not where.devices_per_node:
        return
    divided = _DIVIDED.search(contents.words("parallelism")) is not None
    tensor, pipeline = ranks.tensor_parallel, ranks.pipeline_parallel
    if (divided and (tensor is None or pipeline is None)) or "EP" in ranks.other or "CP" in ranks.other:
        return
    world, model = where.nodes * where.devices_per_node, (tensor or 1) * (pipeline or 1)
    if world % model == 0:
        values["data_parallel"], origins["data_parallel"] = world // model, "nodes x devices / (TP x PP)"


def _global_batch(values: dict[str, int], origins: dict[str, str], found: Cells, defaults: PublishedBatch) -> None:
    """Computed; where a factor is missing, as the row or the document states it."""
    factors = [values.get(name) for name in ("micro_batch", "gradient_accumulation", "data_parallel")]
    known = [one for one in factors if one is not None]
    stated = next((one.global_batch for one in found.claims if one.global_batch and one.global_batch.value), None)
    if len(known) == 3 and math.prod(known) <= MAX_INTEGER:
        values["global_batch"] = math.prod(known)
        origins["global_batch"] = "micro batch x gradient accumulation x data parallel"
    elif stated is not None and stated.value and stated.value == int(stated.value) <= MAX_INTEGER:
        values["global_batch"], origins["global_batch"] = int(stated.value), "as claimed"
    elif "global_batch" not in values and defaults.global_batch:
        values["global_batch"], origins["global_batch"] = defaults.global_batch, "batch defaults"


def _length_in(expression: str | None, where: PublishedHardware) -> int | None:
    """Of `16.67 * 2048 / 8`: sequences a second x their length / devices."""
    devices = where.nodes * where.devices_per_node if where.nodes and where.devices_per_node else None
    return sequence_length(expression, devices) if expression else None


def free_settings(found: Cells, contents: Contents, precision: str | None, dataset: str | None) -> dict[str, Scalar]:
    """Path to value of what is neither layout nor batch."""
    free: dict[str, Scalar | None] = {"contract.precision": precision, "contract.dataset": dataset}
    for name in ("steps", "seed"):
        free[f"contract.{name}"] = found.number(name)
    strategy = contents.words("optimisation")
    recomputed = truth(found.settings.get("gradient_checkpointing"))
    if recomputed is None and _RECOMPUTED.search(strategy):
        recomputed = True
    free["tuning.gradient_checkpointing"] = recomputed
    asked = found.settings.get("attention", "")
    flash = True if "flash" in asked.lower() else truth(asked)
    if flash or (flash is None and re.search(r"flash[ _-]?att", strategy)):
        free["tuning.attention"] = "flash"
    fused = truth(found.settings.get("fused_rms_norm"))
    if fused is not None:
        free["tuning.fused_ops"] = "rms_norm" if fused else ""
    return {path: value for path, value in free.items() if value is not None}


def configuration(found: Cells, line: int) -> ConfigurationName | None:
    """The name in the row's column for it."""
    text = told(found.by_name.get("config_name"))
    return configuration_name(text, line) if text else None
