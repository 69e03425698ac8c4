"""Published results as baselines: the row that a group of runs may be held against, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log
from pathlib import Path

from llmperf.errors import UserError
from llmperf.results.fit import differences, misfits, throughput
from llmperf.results.groups import Group
from llmperf.types.result import Result
from llmperf.validation.devices import vendor_catalogue
from llmperf.validation.reading_results import found_published
from llmperf.vendorkit.peaks import normalised

from llmperf_published.rules.machine import devices_of, dtypes_of
from llmperf_published.types.document import Published, PublishedRow

SHIPPED = Path(__file__).parent / "data"
"""The documents that llmperf ships."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One published result."""

    document: str
    """Name of the document's file."""
    vendor: str | None
    """The vendor that the document names."""
    row: PublishedRow
    """What it says."""

    @property
    def place(self) -> str:
        """Where it stands: `document.md:57`."""
        return f"{self.document}:{self.row.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A group of runs held against published results."""

    group: Group
    """The runs."""
    place: str | None
    """Where the row stands that was taken; None where none fits."""
    figure: float | None
    """Its token/p/s; None where none fits, or it is withheld."""
    share: float | None
    """Median of the group / that figure; None where either is unknown."""
    differs: tuple[str, ...]
    """In what the row and the runs differ all the same."""
    why: str
    """What was taken, or why nothing was, in a line."""

    def document(self) -> dict[str, object]:
        """For programs, without the group."""
        told = {"place": self.place, "tokens_per_second_per_device": self.figure, "share": self.share}
        return {**told, "differs": self.differs, "why": self.why}


def published_at(path: Path) -> list[Baseline]:
    """Every row of the imported documents at a path; UserError where there is none."""
    rows = [_baseline(published, row) for _, published in found_published(path) for row in published.rows]
    if not rows:
        raise UserError(f"{path}: expected imported documents (llmperf import), found none")
    return rows


def _baseline(published: Published, row: PublishedRow) -> Baseline:
    return Baseline(document=published.source.name, vendor=published.vendor, row=row)


def held(group: Group, baselines: Sequence[Baseline]) -> Held:
    """The group against the row that fits: of several, by figure, global batch, what else differs."""
    result = group.results[0]
    if result.hardware.simulated or result.hardware.device_share < 1:
        return _none(group, "published rows are of whole devices; these runs were on a stand-in or on parts of one")
    fitting = [one for one in baselines if not _misfits(result, one)]
    if not fitting:
        return _none(group, _nearest(result, baselines))
    best = min(fitting, key=lambda one: _rank(result, one.row))
    figure, differs = throughput(best.row), (*_family(best.row), *differences(result, best.row))
    if figure is None:
        return _none(group, f"{best.place} fits, but withholds its throughput", best.place)
    median = group.spread.median if group.spread else None
    why = f"{best.place}, {figure:g} token/p/s" + (f"; it differs in {', '.join(differs)}" if differs else "")
    share = None if median is None else median / figure
    return Held(group=group, place=best.place, figure=figure, share=share, differs=differs, why=why)


def _none(group: Group, why: str, place: str | None = None) -> Held:
    return Held(group=group, place=place, figure=None, share=None, differs=(), why=why)


def _family(row: PublishedRow) -> tuple[str, ...]:
    """That the row names no one device, but a family of them."""
    where = row.hardware
    return () if where.device_model else (f"device, which it only calls {where.device}",)


def _rank(result: Result, row: PublishedRow) -> tuple[bool, float, int, float]:
    """Smaller is nearer."""
    figure, batch = throughput(row), row.batch.global_batch
    apart = inf if batch is None else abs(log(batch / result.batch.global_batch))
    return figure is None, apart, len(differences(result, row)), -(figure or 0.0)


def _nearest(result: Result, baselines: Sequence[Baseline]) -> str:
    """Why no row fits, by the one that lacks least."""
    alike = [one for one in baselines if one.row.model == result.model.name]
    if not alike:
        return f"none of {len(baselines)} published rows is on {result.model.name}"
    lacking = [(_misfits(result, one), one) for one in alike]
    reasons, near = min(lacking, key=lambda one: len(one[0]))
    return f"none of {len(baselines)} published rows fits; the nearest, {near.place}, has {', '.join(reasons)}"


def _misfits(result: Result, one: Baseline) -> tuple[str, ...]:
    return misfits(result, one.row, _same_device(result, one), dtypes_of(one.row))


def _same_device(result: Result, one: Baseline) -> bool:
    """By the names that the vendor's plugin publishes; a row that names only a family fits each device of it."""
    hardware, named = result.hardware, one.row.hardware.device_model
    if one.vendor not in (None, hardware.vendor):
        return False
    if named and normalised(named, hardware.vendor) == normalised(hardware.device_model, hardware.vendor):
        return True
    catalogue = vendor_catalogue(hardware.vendor)
    ours = catalogue.exact(hardware.device_model) if catalogue else None
    return catalogue is not None and ours is not None and ours in devices_of(catalogue, one.row)
