"""Bytes of weights, gradients and AdamW states that one rank holds at most; activations are not counted.

Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", section 3.1
and figure 1: in mixed precision 2 bytes of weights, 2 of gradients and 12 of optimiser states (fp32 weights,
momentum, variance) a parameter; each stage divides one of them by the sharding degree. In fp32 there is no
second copy: 4, 4, 8.

What a framework holds beside these while it updates, such as float32 copies of 16-bit gradients, is the framework's to
say (`WorkerPlan.update_bytes_per_parameter`).
"""

from __future__ import annotations

import math

from llmperf.accounting.parameters import count_parameters
from llmperf.types import Layout, Model, Precision

MIXED = (2, 2, 12)
"""Weights, gradients, optimiser states in 16 bits, bytes a parameter."""
SINGLE = (4, 4, 8)
"""The same in fp32, tf32 products included."""


def stage_state_bytes(
    model: Model, layout: Layout, precision: Precision, trainable: int | None = None, update_bytes: float = 0
) -> tuple[int, ...]:
    """Estimated bytes of model states on one rank of each pipeline stage, first stage first.

    `trainable` counts the trained parameters of the whole model, equally many in each layer (adapters); None: all.
    `update_bytes` is what the update holds beside them, for each trained parameter of a shard.
    """
    here = None if trainable is None else _ceil(trainable, layout.pipeline_parallel)
    stages = stage_parameters(model, layout.pipeline_parallel)
    return tuple(state_bytes(parameters, layout, precision, here, update_bytes) for parameters in stages)


def stage_parameters(model: Model, stages: int) -> tuple[int, ...]:
    """Parameters of each stage: equally many layers, the input embedding on the first, norm and head on the last.

    Where the embeddings are tied, both ends hold the one matrix.
    """
    count = count_parameters(model)
    final_norm = model.hidden_size
    layers = (count.attention + count.mlp + count.norms - final_norm) // stages
    if stages == 1:
        return (count.total,)
    first, last = layers + count.input_embedding, layers + final_norm + (count.head or count.input_embedding)
    return (first, *[layers] * (stages - 2), last)


def state_bytes(
    parameters: int, layout: Layout, precision: Precision, trainable: int | None = None, update_bytes: float = 0
) -> int:
    """Estimated bytes of model states on one rank of a stage.

    `parameters` and `trainable` count the stage; `trainable` is None when all are trained, else gradients and
    optimiser states exist for those only. Tensor parallel ranks are taken to hold equal parts. `update_bytes`, for each
    trained parameter, is divided by the sharding degree as optimiser states are.
    """
    weights, gradients, states = MIXED if precision in ("bf16", "fp16") else SINGLE
    trained = parameters if trainable is None else trainable
    stage, ways = layout.sharding_stage, layout.tensor_parallel
    parts = ((weights, parameters, 3), (gradients, trained, 2), (states, trained, 1), (update_bytes, trained, 1))
    return sum(
        _ceil(math.ceil(each * size), ways * (layout.sharding_degree if stage >= sharded_from else 1))
        for each, size, sharded_from in parts
    )


def _ceil(total: int, parts: int) -> int:
    return -(-total // parts)
