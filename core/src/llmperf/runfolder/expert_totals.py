"""The tokens that each expert took in the measured window, summed over ranks as their records are read."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

from llmperf.accounting.routing import mixture_layers_of
from llmperf.errors import UserError
from llmperf.types.plan import Plan
from llmperf.types.records import ExpertsRecord
from llmperf.types.result import LayerLoad

MOST_LAYERS = 2**16


class ExpertTotals:
    """Sums by layer; what a rank records must have the shape of the model."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._layers: dict[int, tuple[int, ...]] = {}
        self._ranks: set[int] = set()

    def add(self, record: ExpertsRecord) -> None:
        """Add what a rank recorded; UserError if it does not fit the plan, or is its second record."""
        spec, layout, mixture = self._plan.spec, self._plan.layout, self._plan.spec.model.mixture
        where = f"records of rank {record.rank}: experts"
        if mixture is None or record.rank >= layout.world_size or layout.coordinate(record.rank, "tensor"):
            raise UserError(f"{where}: expected none of this rank by the plan, found one")
        if record.rank in self._ranks:
            raise UserError(f"{where}: expected one record, found several")
        if max(spec.model.layers, spec.tuning.virtual_stages) + spec.model.multi_token_layers > MOST_LAYERS:
            raise UserError(f"{where}: expected at most {MOST_LAYERS} layers in the plan, found more")
        places = mixture_layers_of(spec.model, layout, spec.tuning.virtual_stages, record.rank)
        if len(record.layers) != len(places) or any(len(layer) != mixture.experts for layer in record.layers):
            raise UserError(f"{where}: expected {len(places)} layers of {mixture.experts} counts, found others")
        self._ranks.add(record.rank)
        for place, counts in zip(places, record.layers, strict=True):
            known = self._layers.get(place)
            self._layers[place] = counts if known is None else tuple(map(add, known, counts))

    def loads(self) -> tuple[LayerLoad, ...]:
        """The load of each layer with experts; empty unless all ranks with data of their own have recorded them."""
        layout = self._plan.layout
        if len(self._ranks) < layout.world_size // layout.tensor_parallel:
            return ()
        return tuple(
            LayerLoad(layer=layer, tokens=tokens, imbalance=imbalance(tokens))
            for layer, tokens in sorted(self._layers.items())
        )


def imbalance(tokens: Sequence[int]) -> float | None:
    """Most tokens of an expert / mean of all; None without tokens."""
    return max(tokens) * len(tokens) / sum(tokens) if any(tokens) else None
