"""The tokens that experts took in the measured window, as a trainer counts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llmperf.accounting.routing import mixture_layers_of
from llmperf.errors import PluginError
from llmperf.types.plan import Plan
from llmperf.types.records import Trainer

MOST_COUNTS = 2**16
"""Layers x experts. More are not recorded: a record is one line, of bounded length."""
Counts = tuple[tuple[int, ...], ...]
"""Counts by layer and expert."""


class ExpertCounts:
    """Reads a trainer's `expert_tokens` at both edges of the measured window."""

    def __init__(self, trainer: Trainer, layers: int, experts: int) -> None:
        self._layers, self._experts = layers, experts
        asked = 0 < layers * experts <= MOST_COUNTS
        self._query: Callable[[], object] | None = getattr(trainer, "expert_tokens", None) if asked else None
        self._before: Counts | None = None

    def begin(self) -> None:
        """At the beginning of the window: remember what the experts took in the warm-up steps."""
        self._before = self._counts()

    def taken(self) -> Counts | None:
        """At the end of the window: the tokens of its steps; None if the trainer does not count them.

        PluginError if the counts have another shape than the model, or fall.
        """
        before, after = self._before, self._counts()
        if before is None or after is None:
            return None
        return tuple(tuple(map(_risen, *layers)) for layers in zip(before, after, strict=True))

    def _counts(self) -> Counts | None:
        answer: Any = None if self._query is None else self._query()
        if answer is None:
            return None
        shape = f"{self._layers} layers of {self._experts} token counts each"
        if not _sequence(answer) or len(answer) != self._layers or not all(map(self._whole, answer)):
            raise _wrong(shape, repr(answer)[:80])
        return tuple(tuple(layer) for layer in answer)

    def _whole(self, layer: Any) -> bool:
        if not _sequence(layer) or len(layer) != self._experts:
            return False
        return all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in layer)


def expert_counts(trainer: Trainer, plan: Plan, rank: int) -> ExpertCounts:
    """The counts of a rank; none of dense models, and of ranks whose tensor-parallel neighbour has the same data."""
    spec = plan.spec
    if spec.model.mixture is None or plan.layout.coordinate(rank, "tensor"):
        return ExpertCounts(trainer, 0, 0)
    layers = mixture_layers_of(spec.model, plan.layout, spec.tuning.virtual_stages, rank)
    return ExpertCounts(trainer, len(layers), spec.model.mixture.experts)


def _sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _risen(before: int, after: int) -> int:
    if after < before:
        raise _wrong("counts that never fall", f"{after} after {before}")
    return after - before


def _wrong(expected: str, found: str) -> PluginError:
    return PluginError(f"the trainer of llmperf_build_trainer: expected {expected} as expert_tokens(), found {found}")
