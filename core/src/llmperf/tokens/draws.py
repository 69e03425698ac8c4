"""Deterministic draws for initial weights, order of samples and routing: the same on every vendor and framework.

The generator is Philox4x64-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011) keyed
by a hash of seed and name. Only its raw 64-bit words are used, so that no stream depends on how a library
turns words into floating-point draws. Element i of a stream is its word i, so any slice can be drawn alone.
"""

from __future__ import annotations

import hashlib
import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmperf.accounting.routing import MOST_EXPERTS, ROUTING_ROWS, Routing, routing_loads
from llmperf.types import Batch, Model

WORDS_PER_COUNTER = 4
BLOCK = 1 << 16
"""Elements turned into floats at a time, so that the intermediate results stay in the cache."""
MOST_THREADS = 16
UNIFORM_MAX = 2**16 - 1
LANES = np.uint64(0x0000_FFFF_0000_FFFF)
LOW = np.uint64(0xFFFF_FFFF)


def raw_uint64(seed: int, name: str, start: int, stop: int) -> NDArray[np.uint64]:
    """Words `start` to `stop` of the stream of (seed, name), without drawing those before; [stop - start]."""
    if not 0 <= start <= stop:
        raise ValueError(f"slice {start}:{stop} of a stream")
    first, skipped = divmod(start, WORDS_PER_COUNTER)
    counter = np.array([first, 0, 0, 0], dtype=np.uint64)
    digest = hashlib.sha256(f"llmperf/v1/{seed}/{name}".encode()).digest()
    generator = np.random.Philox(key=np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64), counter=counter)
    words: NDArray[np.uint64] = generator.random_raw(skipped + stop - start)
    return words[skipped:]


def permutation(seed: int, name: str, size: int) -> NDArray[np.int64]:
    """The numbers below `size` in a random order."""
    return np.argsort(raw_uint64(seed, name, 0, size), kind="stable").astype(np.int64)


def initial_normal(
    seed: int, name: str, shape: tuple[int, ...], std: float, start: int = 0, stop: int | None = None
) -> NDArray[np.float32]:
    """Initial weights: approximately normal float32 values of mean 0 and standard deviation `std`.

    Each element is the sum of the four 16-bit uniforms of one word, centred and scaled: mean 0 and variance
    std^2 exactly (that of the sum is (2^32 - 1) / 3), kurtosis 2.7, support +-3.46 std. `name` is the
    parameter's name in published checkpoints and `shape` its shape there, [out, in] for a matrix. With `start`
    or `stop`, the result is that slice of the flattened tensor (C order), [stop - start].
    """
    size = math.prod(shape)
    whole = start == 0 and stop is None
    stop = size if stop is None else stop
    if not 0 <= start <= stop <= size:
        raise ValueError(f"slice {start}:{stop} of {name}, which has {size} elements")
    scale = np.float32(std / math.sqrt((2.0**32 - 1) / 3))
    values = np.empty(stop - start, dtype=np.float32)

    def fill(begin: int) -> None:
        end = min(begin + BLOCK, stop)
        words = raw_uint64(seed, name, begin, end)
        pairs: Any = (words & LANES) + ((words >> np.uint64(16)) & LANES)  # sums of 16-bit parts, in two lanes
        sums = ((pairs & LOW) + (pairs >> np.uint64(32))).astype(np.int32)
        centred = (sums - 2 * UNIFORM_MAX).astype(np.float32)
        np.multiply(centred, scale, out=values[begin - start : end - start])

    blocks = range(start, stop, BLOCK)
    share = (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # of the host's cores
    if (threads := min(MOST_THREADS, share, len(blocks) // 8)) > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, blocks))
    else:
        for begin in blocks:
            fill(begin)
    return values.reshape(shape) if whole else values


def is_norm(name: str) -> bool:
    """Check whether a parameter, by its name in published checkpoints, is the weight of a norm."""
    return name.endswith("norm.weight")


def decays(name: str) -> bool:
    """Check whether weight decay applies to a parameter, by its published name: not to norms, biases and sinks."""
    return not (is_norm(name) or name.endswith(("bias", ".sinks")))


def initial_constant(name: str, model: Model) -> float | None:
    """The value that all elements of a parameter begin at: those that do not decay. None: `initial_normal` draws it.

    Weights of norms begin at 1, or at 0 where the model adds 1 to them (`norm_offset`); biases and sinks begin at 0.
    """
    if is_norm(name):
        return 0.0 if model.norm_offset else 1.0
    return None if decays(name) else 0.0


def position(batch: Batch, steps_before: int, micro_step: int, data_parallel_rank: int, row: int) -> int:
    """Place in the global order of one row of the step after `steps_before` others, in every layout."""
    slot = micro_step * batch.data_parallel + data_parallel_rank
    return steps_before * batch.global_batch + slot * batch.micro_batch + row


@dataclass(slots=True)
class SampleOrder:
    """The order in which samples are seen: another permutation in each epoch, determined by the seed."""

    samples: int
    seed: int
    _epoch: int = -1
    _permutation: NDArray[np.int64] | None = None

    def __getitem__(self, position: int) -> int:
        """The index of the sample at a place of the global order."""
        epoch, within = divmod(position, self.samples)
        if self._permutation is None or epoch != self._epoch:
            self._epoch, self._permutation = epoch, permutation(self.seed, f"data/order/{epoch}", self.samples)
        return int(self._permutation[within])


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
    order = permutation(seed, f"routing/{layer}/experts", mixture.experts)
    size = ROUTING_ROWS * mixture.top_k
    if routing == "balanced":
        return order[np.arange(size) % mixture.experts].reshape(ROUTING_ROWS, mixture.top_k)
    # Column after column, each expert fills adjacent cells, at most ROUTING_ROWS of them: no row has an expert twice.
    columns = np.repeat(order, routing_loads(mixture, routing, skew)).reshape(mixture.top_k, ROUTING_ROWS)
    return np.ascontiguousarray(columns.T[permutation(seed, f"routing/{layer}/rows", ROUTING_ROWS)])
