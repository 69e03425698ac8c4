"""`python -m llmperf_cpu.gemm_peak --dtype fp32` prints this host's fastest matrix product as a line of JSON.

Square products of several sizes run on all cores, each repeated for a share of the time; the fastest single repeat
counts. They use torch if it is installed, else numpy, which has fp32 only. `core_share` is the share of the cores' time
that other processes left to the products: well below 1, the figure is too low.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from typing import NamedTuple

from llmperf_cpu import host

SIZES = (1024, 2048, 4096)
SECONDS = 0.6
"""For each size."""


class Best(NamedTuple):
    """The fastest product."""

    flops_per_second: float
    size: int
    core_share: float


def best_flops(
    product: Callable[[int], Callable[[], object]], cores: int, sizes: tuple[int, ...] = SIZES, seconds: float = SECONDS
) -> Best:
    """The fastest repeat of all sizes; sizes of which one repeat would take far too long are left out."""
    best, best_size, expected, shares = 0.0, sizes[0], 0.0, _Shares(cores)
    for size in sizes:
        if expected > 2 * seconds:
            break
        multiply = product(size)
        multiply()
        with shares:
            fastest = _fastest(multiply, seconds)
        expected = 8 * fastest
        if (flops := 2 * size**3 / fastest) > best:
            best, best_size = flops, size
    return Best(best, best_size, shares.left)


class _Shares:
    """The share of the cores that other processes left, over the time inside `with`."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._sums = (0.0, 0.0, 0.0)
        self._begin = (0.0, 0.0, 0.0)

    def __enter__(self) -> None:
        self._begin = self._now()

    def __exit__(self, *_: object) -> None:
        wall, own, busy = (end - begin for end, begin in zip(self._now(), self._begin, strict=True))
        self._sums = (self._sums[0] + wall, self._sums[1] + own, self._sums[2] + busy)

    @property
    def left(self) -> float:
        """1 less the share of others, at most what this process left unused, as a library may leave cores idle."""
        wall, own, busy = self._sums
        available = wall * self._cores
        unused = max(0.0, 1 - own / available)
        return 1 - unused if math.isnan(busy) else 1 - min(unused, max(0.0, (busy - own) / available))

    def _now(self) -> tuple[float, float, float]:
        busy = host.busy_seconds()
        return time.perf_counter(), time.process_time(), math.nan if busy is None else busy


def _fastest(multiply: Callable[[], object], seconds: float) -> float:
    fastest, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        multiply()
        now = time.perf_counter()
        fastest = min(fastest, now - start)
        if now >= end:
            return fastest


def torch_product(dtype: str, cores: int) -> Callable[[int], Callable[[], object]]:
    """Products with torch; ImportError without it."""
    import torch

    torch.set_num_threads(cores)
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]

    def of(size: int) -> Callable[[], object]:
        left, right = (torch.rand(size, size).to(kind) for _ in range(2))
        out = torch.empty(size, size, dtype=kind)
        return lambda: torch.mm(left, right, out=out)

    return of


def numpy_product() -> Callable[[int], Callable[[], object]]:
    """Products with numpy in fp32; ImportError without it."""
    import numpy as np

    def of(size: int) -> Callable[[], object]:
        left, right = (np.random.default_rng(seed).random((size, size), dtype=np.float32) for seed in (0, 1))
        out = np.empty((size, size), dtype=np.float32)
        return lambda: np.matmul(left, right, out=out)

    return of


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Best matrix product of this host, FLOP/s")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--library", choices=("torch", "numpy"), default="torch")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each size")
    options = parser.parse_args()
    if options.library == "numpy" and options.dtype != "fp32":
        parser.error("numpy multiplies matrices in fp32 only")
    cores = host.usable_cores()
    product = torch_product(options.dtype, cores) if options.library == "torch" else numpy_product()
    print(json.dumps(best_flops(product, cores, seconds=options.seconds)._asdict()))


if __name__ == "__main__":
    main()
