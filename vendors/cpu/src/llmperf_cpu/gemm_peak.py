"""`python -m llmperf_cpu.gemm_peak --dtype fp32`: the best matrix product of this host, as one line of JSON.

Square products of several sizes on all cores, each repeated for a share of the time; the fastest single
repeat counts. torch where it is installed, else numpy, which has fp32 only.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

SIZES = (1024, 2048, 4096)
SECONDS = 0.6
"""For each size."""


def best_flops(product: Callable[[int], Callable[[], object]], sizes: tuple[int, ...] = SIZES) -> tuple[float, int]:
    """FLOP/s of the fastest repeat and its size; sizes that one repeat would overrun by far are left out."""
    best, best_size, expected = 0.0, sizes[0], 0.0
    for size in sizes:
        if expected > 2 * SECONDS:
            break
        seconds = _fastest(product(size))
        expected = 8 * seconds
        if (flops := 2 * size**3 / seconds) > best:
            best, best_size = flops, size
    return best, best_size


def _fastest(multiply: Callable[[], object]) -> float:
    multiply()
    fastest, end = float("inf"), time.perf_counter() + SECONDS
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
    from llmperf_cpu.host import usable_cores

    parser = argparse.ArgumentParser(description="Best matrix product of this host, FLOP/s")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--library", choices=("torch", "numpy"), default="torch")
    asked = parser.parse_args()
    if asked.library == "numpy" and asked.dtype != "fp32":
        parser.error("numpy multiplies matrices in fp32 only")
    product = torch_product(asked.dtype, usable_cores()) if asked.library == "torch" else numpy_product()
    flops, size = best_flops(product)
    print(json.dumps({"flops_per_second": flops, "size": size}))


if __name__ == "__main__":
    main()
