"""Bytes of weights, gradients and AdamW states that one rank holds; activations are not counted.

Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", section 3.1
and figure 1: in mixed precision 2 bytes of weights, 2 of gradients and 12 of optimiser states (fp32 weights,
momentum, variance) a parameter; each stage divides one of them by the sharding degree. In fp32 there is no
second copy: 4, 4, 8.
"""

from __future__ import annotations

from llmperf.types import Layout, Precision

MIXED = (2, 2, 12)
"""Weights, gradients, optimiser states in 16 bits, bytes a parameter."""
SINGLE = (4, 4, 8)
"""The same in fp32, tf32 products included."""


def state_bytes(parameters: int, layout: Layout, precision: Precision, trainable: int | None = None) -> int:
    """Estimated bytes of model states on one rank.

    `parameters` and `trainable` count the whole model; `trainable` is None when all are trained, else
    gradients and optimiser states exist for those only. Tensor and pipeline parallel ranks are taken to hold
    equal parts.
    """
    weights, gradients, states = MIXED if precision in ("bf16", "fp16") else SINGLE
    trained = parameters if trainable is None else trainable
    stage, ways = layout.sharding_stage, layout.tensor_parallel * layout.pipeline_parallel
    parts = ((weights, parameters, 3), (gradients, trained, 2), (states, trained, 1))
    return sum(
        _ceil(each * size, ways * (layout.sharding_degree if stage >= sharded_from else 1))
        for each, size, sharded_from in parts
    )


def _ceil(total: int, parts: int) -> int:
    return -(-total // parts)
