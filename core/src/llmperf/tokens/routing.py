"""Routing tables: which experts of a mixture a token takes under balanced and skewed routing.

Tables are drawn from Philox words (`llmperf.tokens.draws`) and from integer loads, so every machine has the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llmperf.accounting.routing import MOST_EXPERTS, ROUTING_ROWS, Routing, routing_loads
from llmperf.tokens.draws import raw_uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmperf.types import Model


def routing_table(seed: int, model: Model, layer: int, routing: Routing, skew: float) -> NDArray[np.int64]:
    """The experts that tokens take in a layer, [ROUTING_ROWS, top_k], for `balanced` and `skewed` routing.

    The token at place p of its sequence takes the experts of row p mod ROUTING_ROWS, which are distinct. `layer` counts
    from 0, layers without experts included. Groups of experts (`Mixture.groups`) are not regarded.

    - `balanced`: any experts / gcd(experts, top_k) rows in succession take every expert equally often, and any rows
      take no expert more than once more often than another.
    - `skewed`: in the whole table the n-th most popular expert is taken in proportion to n^-skew, at most in every
      row. Which expert is popular, and the order of rows, differ from layer to layer.

    ValueError for a model without experts or with more than MOST_EXPERTS, and for learned routing.
    """
    mixture = model.mixture
    if mixture is None or mixture.experts > MOST_EXPERTS or routing == "learned":
        raise ValueError(f"{model.name} has no table for {routing} routing")
    order = _permutation(seed, f"routing/{layer}/experts", mixture.experts)
    size = ROUTING_ROWS * mixture.top_k
    if routing == "balanced":
        return order[np.arange(size) % mixture.experts].reshape(ROUTING_ROWS, mixture.top_k)
    # Column after column, each expert fills adjacent cells, at most ROUTING_ROWS of them: no row has an expert twice.
    columns = np.repeat(order, routing_loads(mixture, routing, skew)).reshape(mixture.top_k, ROUTING_ROWS)
    return np.ascontiguousarray(columns.T[_permutation(seed, f"routing/{layer}/rows", ROUTING_ROWS)])


def table_loads(seed: int, model: Model, layer: int, routing: Routing, skew: float, seq_len: int) -> tuple[int, ...]:
    """Tokens of one sequence that each expert of a layer takes by its table; errors as those of `routing_table`."""
    table = routing_table(seed, model, layer, routing, skew)
    whole, rest = divmod(seq_len, ROUTING_ROWS)
    experts = model.mixture.experts if model.mixture is not None else 0
    counts = whole * np.bincount(table.ravel(), minlength=experts)
    return tuple((counts + np.bincount(table[:rest].ravel(), minlength=experts)).tolist())


def _permutation(seed: int, name: str, size: int) -> NDArray[np.int64]:
    return np.argsort(raw_uint64(seed, name, 0, size), kind="stable").astype(np.int64)
