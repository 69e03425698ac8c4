"""The runs of a scaling measurement: one cell of a matrix for each number of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmperf.cases.matrix import Cell, Matrix
from llmperf.errors import UserError
from llmperf.planning.build import plan_only
from llmperf.planning.nodes import LOCAL
from llmperf.planning.states import Planned, Request
from llmperf.results.scaling import Measured, Scaling
from llmperf.running.measure import startable

MOST_NUMBERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One number of ranks, and where they run."""

    nodes: int
    devices: int
    """Ranks on each node."""

    @property
    def ranks(self) -> int:
        """On all nodes."""
        return self.nodes * self.devices


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRuns:
    """A scaling measurement before it runs."""

    matrix: Matrix
    """One cell for each number of ranks, ascending."""
    plans: tuple[Planned, ...]
    """The plan of each cell, without peaks."""
    device: str
    """Model of the devices."""

    def measured(self, place: int, throughputs: Sequence[float], runs: Sequence[str]) -> Measured:
        """The runs of one cell."""
        plan = self.plans[place].plan
        return Measured(
            ranks=plan.layout.world_size,
            nodes=plan.layout.nodes,
            devices=plan.layout.devices_per_node,
            global_batch=plan.batch.global_batch,
            device_share=plan.device_share,
            throughputs=tuple(throughputs),
            runs=tuple(runs),
        )


def parse_scale(text: str) -> tuple[str, tuple[int, ...]]:
    """`1,2,4` or `nodes=1,2` as what is counted, `ranks` or `nodes`, and the numbers in ascending order."""
    what, equals, numbers = text.rpartition("=")
    what = what.strip() if equals else "ranks"
    words = [word.strip() for word in numbers.split(",")]
    if what not in ("ranks", "nodes") or not all(word.isdecimal() and 0 < int(word) < 10**7 for word in words):
        raise UserError(f"--scale: expected numbers of ranks, such as 1,2,4, or nodes=1,2,4; found {text!r}")
    counts = sorted(map(int, words))
    if len(set(counts)) < len(counts) or not 2 <= len(counts) <= MOST_NUMBERS:
        raise UserError(f"--scale: expected 2 to {MOST_NUMBERS} different numbers, found {text!r}")
    return what, tuple(counts)


def scaling_runs(request: Request, text: str, scaling: Scaling, repeats: int) -> ScalingRuns:
    """Plan a scaling measurement; UserError or Refused if it cannot run with every number of ranks."""
    what, counts = parse_scale(text)
    if what == "ranks" and request.launcher == LOCAL and request.devices is not None:
        raise UserError(f"--devices: expected without --scale {text}, whose numbers are those of the ranks here")
    quick = replace(request, skip_peak_and_env=True)
    sizes = _sizes(quick, what, counts)
    base = startable(plan_only(_at(quick, sizes[0])))
    extra = [_batch(base, size, scaling) for size in sizes]
    plans = [base]
    for size, settings in zip(sizes[1:], extra[1:], strict=True):
        plans.append(startable(plan_only(_at(quick, size, settings))))
    for size, planned in zip(sizes, plans, strict=True):
        if planned.plan.layout.world_size != size.ranks:
            found = f"{planned.plan.layout.world_size}, the framework's layout"
            raise UserError(f"--scale: expected {size.ranks} ranks, found {found}")
    cells = tuple(
        Cell(
            case=request.case,
            vendor=request.vendor,
            framework=request.framework,
            devices=size.devices,
            settings=_settings(request, size) | settings,
        )
        for size, settings in zip(sizes, extra, strict=True)
    )
    name = f"{Path(request.case).stem}-{scaling}-scaling"
    return ScalingRuns(
        matrix=Matrix(name=name, folder=Path(), cells=cells, repeats=repeats, order="shuffled"),
        plans=tuple(plans),
        device=base.machine.probe.devices[0].model,
    )


def _sizes(request: Request, what: str, counts: Sequence[int]) -> list[Size]:
    """Nodes and devices of each number. Ranks fill one node before they use whole nodes."""
    if what == "nodes":
        per_node = startable(plan_only(_at(request, Size(nodes=1, devices=request.devices or 0)))).plan.layout
        return [Size(nodes=count, devices=per_node.devices_per_node) for count in counts]
    if request.launcher == LOCAL:
        return [Size(nodes=1, devices=count) for count in counts]
    outcome = plan_only(_at(request, Size(nodes=1, devices=request.devices or 0)))
    full = request.devices or len(outcome.machine.probe.devices)
    sizes = [Size(nodes=max(1, count // full), devices=min(count, full)) for count in counts]
    for count, size in zip(counts, sizes, strict=True):
        if size.ranks != count:
            lower = count // full * full
            raise UserError(
                f"--scale {count}: expected up to {full} ranks, which one node has, or a multiple of that; the nearest"
                f" are {lower} and {lower + full}"
            )
    return sizes


def _at(request: Request, size: Size, settings: Mapping[str, Any] | None = None) -> Request:
    """The request for one number of ranks; 0 devices are as many as the case says."""
    cell = Cell(case=request.case, settings=_nodes(request, size) | dict(settings or {}))
    return replace(request, devices=size.devices or None, settings=(*request.settings, *cell.options()))


def _nodes(request: Request, size: Size) -> dict[str, Any]:
    return {} if request.launcher == LOCAL and size.nodes == 1 else {"tuning.nodes": size.nodes}


def _settings(request: Request, size: Size) -> dict[str, Any]:
    """What the user set, by path, and the number of nodes."""
    from llmperf.cases.settings import from_command_line

    return {setting.path: setting.value for setting in from_command_line(request.settings)} | _nodes(request, size)


def _batch(base: Planned, size: Size, scaling: Scaling) -> dict[str, Any]:
    """The settings of the batch with more ranks than `base` has."""
    batch, layout = base.plan.batch, base.plan.layout
    group = layout.world_size // layout.data_parallel
    if size.ranks % group:
        lower = size.ranks // group * group
        near = f"{lower} and {lower + group}" if lower else str(group)
        raise UserError(
            f"--scale {size.ranks}: expected a multiple of the {group} ranks that share a copy of the model; the"
            f" nearest are {near}"
        )
    data_parallel = size.ranks // group
    if size.ranks == layout.world_size:
        return {}
    if scaling == "weak":
        return {"contract.global_batch": batch.global_batch // batch.data_parallel * data_parallel}
    if batch.global_batch % (batch.micro_batch * data_parallel):
        fitting = [
            number for number in range(1, batch.global_batch // batch.micro_batch + 1)
            if batch.global_batch % (batch.micro_batch * number) == 0
        ]  # fmt: skip
        nearest = group * min(fitting, key=lambda number: abs(number - data_parallel))
        raise UserError(
            f"--scale {size.ranks}: global batch {batch.global_batch} is not a multiple of micro batch"
            f" {batch.micro_batch} x data parallel {data_parallel}, as strong scaling needs; the nearest number of"
            f" ranks is {nearest}, or choose --scaling weak"
        )
    return {"contract.global_batch": batch.global_batch}
