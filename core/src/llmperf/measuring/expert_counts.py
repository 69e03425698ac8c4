"""The tokens that experts took in the measured window, as a trainer counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import sub

import msgspec

from llmperf.accounting.routing import mixture_layers_of
from llmperf.hookspecs import hookimpl
from llmperf.measuring.loop import wrong
from llmperf.types.plan import Plan
from llmperf.types.records import ExpertsRecord, RankRecords, Trainer

MOST_COUNTS = 2**16
"""Layers x experts. More are not recorded: a record is one line, of bounded length."""
Counts = tuple[tuple[int, ...], ...]
"""Counts by layer and expert."""


class ExpertCounts:
    """Reads a trainer's `expert_tokens` at both edges of the measured window."""

    def __init__(self, query: Callable[[], object], rank: int, layers: int, experts: int) -> None:
        self._query, self._rank, self._layers, self._experts = query, rank, layers, experts
        self._before: Counts | None = None

    def begin(self) -> None:
        """At the beginning of the window: remember what the experts took in the warm-up steps."""
        self._before = self._counts()

    def end(self) -> ExpertsRecord | None:
        """The tokens of the window's steps; None if the trainer does not count. PluginError for wrong counts."""
        before, after = self._before, self._counts()
        if before is None or after is None:
            return None
        for earlier, later in zip(before, after, strict=True):
            if fallen := [f"{now} after {then}" for then, now in zip(earlier, later, strict=True) if now < then]:
                raise wrong("counts that never fall", "expert_tokens()", fallen[0])
        risen = tuple(tuple(map(sub, later, earlier)) for earlier, later in zip(before, after, strict=True))
        return ExpertsRecord(rank=self._rank, layers=risen)

    def _counts(self) -> Counts | None:
        if (answer := self._query()) is None:
            return None
        with suppress(msgspec.ValidationError):
            layers = msgspec.convert(answer, Counts)
            if [len(layer) for layer in layers] == [self._experts] * self._layers and min(map(min, layers)) >= 0:
                return layers
        expected = f"{self._layers} layers of {self._experts} token counts each"
        raise wrong(expected, "expert_tokens()", repr(answer)[:80])


@hookimpl
def llmperf_rank_records(plan: Plan, rank: int, trainer: Trainer) -> Iterable[RankRecords]:
    """The counts of a rank; none of dense models, and of ranks whose tensor-parallel neighbour has the same data."""
    spec = plan.spec
    query: Callable[[], object] | None = getattr(trainer, "expert_tokens", None)
    if query is None or spec.model.mixture is None or plan.layout.coordinate(rank, "tensor"):
        return
    layers = len(mixture_layers_of(spec.model, plan.layout, spec.tuning.virtual_stages, rank))
    if 0 < layers * spec.model.mixture.experts <= MOST_COUNTS:
        counts = ExpertCounts(query, rank, layers, spec.model.mixture.experts)
        yield RankRecords(kind="experts", begin=counts.begin, end=counts.end)
