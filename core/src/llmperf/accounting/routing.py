"""Layers with experts, and tokens of each expert under balanced and skewed routing.

Tokens take experts by a table of ROUTING_ROWS rows (`llmperf.tokens.draws`); the loads here are those of the whole
table. They are integers computed by integers and correctly rounded decimals, so they are the same on every machine.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from llmperf.accounting.parameters import mixture_layers
from llmperf.types.layout import Layout
from llmperf.types.models import Mixture, Model
from llmperf.types.spec import Contract

Routing = Literal["learned", "balanced", "skewed"]

ROUTING_ROWS = 4096
"""Rows of a routing table: the token at place p of its sequence takes the experts of row p mod ROUTING_ROWS."""
MOST_EXPERTS = 4096
"""Models with more experts have no routing tables; the largest published ones have some hundred experts."""
DEFAULT_SKEW = 1.0
"""Default of `Contract.routing_skew`."""
MOST_SKEW = 10.0
"""Exponents are below this: with 10, the weight of the second expert is a thousandth of the first one's."""
SCALE = 2**160
"""Weights of Zipf's law are rounded to 1/SCALE: the smallest, MOST_EXPERTS^-MOST_SKEW, is 2^-120."""
DIGITS = 80


def routing_text(contract: Contract) -> str:
    """The routing as text, such as `balanced`, or `skewed, exponent 1.2`."""
    return contract.routing + (f", exponent {contract.routing_skew:g}" if contract.routing == "skewed" else "")


@lru_cache(maxsize=64)
def routing_loads(mixture: Mixture, routing: Routing, skew: float) -> tuple[int, ...]:
    """Rows of a routing table that take each expert, highest load first; the sum is ROUTING_ROWS x top_k.

    `learned` routing has no table: its loads are taken to be balanced. Skewed loads follow Zipf's law, except that no
    expert takes more than all rows: what is above that goes to the others.
    """
    experts, left = mixture.experts, ROUTING_ROWS * mixture.top_k
    if routing != "skewed":
        each, over = divmod(left, experts)
        return (each + 1,) * over + (each,) * (experts - over)
    from decimal import Context, Decimal, localcontext

    with localcontext(Context(prec=DIGITS)):
        weights = [round((-Decimal(skew) * Decimal(place).ln()).exp() * SCALE) for place in range(1, experts + 1)]
    rest, full = sum(weights), 0
    while full < experts and weights[full] * left > ROUTING_ROWS * rest:
        rest, left, full = rest - weights[full], left - ROUTING_ROWS, full + 1
    # what is left is divided in proportion, in whole numbers: the largest remainders are rounded up
    shares = [divmod(left * weight, rest) for weight in weights[full:]]
    missing = left - sum(share for share, _ in shares)
    up = set(sorted(range(len(shares)), key=lambda place: (-shares[place][1], place))[:missing])
    loads = sorted((share + (place in up) for place, (share, _) in enumerate(shares)), reverse=True)
    return (ROUTING_ROWS,) * full + tuple(loads)


def mixture_layers_of(model: Model, layout: Layout, virtual_stages: int, rank: int) -> tuple[int, ...]:
    """The layers with experts that a rank holds or shares, in the order of its virtual stages."""
    stages = layout.pipeline_parallel
    stage = layout.coordinate(rank, "pipeline")
    chunks = range(stage, stages * virtual_stages, stages)
    return tuple(layer for chunk in chunks for layer in mixture_layers(model, stages * virtual_stages, chunk))
