"""Short measurements of a node's accelerators, and of the all-reduce between two nodes, by torch."""

from __future__ import annotations

import datetime
import os
import socket
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed
from llmperf.types import PairEnd

SECONDS = 1.0
MATRIX = 8192
"""Rows and columns of the bfloat16 matrices: 1.1 TFLOP for each product."""
COPIED_BYTES = 2**30
REDUCED_BYTES, SLOW_BYTES = 2**26, 2**20
"""Data of an all-reduce; the smaller one over a network on which it alone takes longer than SLOW_SECONDS."""
SLOW_SECONDS = 0.1
TIMEOUT = datetime.timedelta(seconds=20)


def _accelerator(index: int) -> torch.device:
    """The accelerator at a position; RuntimeError if torch has none of this number."""
    kind = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if kind is None:
        raise RuntimeError("torch sees no accelerator")
    if index >= torch.accelerator.device_count():
        raise RuntimeError(f"torch sees {torch.accelerator.device_count()} accelerators")
    return torch.device(kind.type, index)


def _median_seconds(run: Callable[[], object], wait: Callable[[], object]) -> float:
    """Median duration of a call that leaves work on a device, over SECONDS and at least 5 calls."""
    run()
    wait()
    durations: list[float] = []
    began = time.monotonic()
    while len(durations) < 5 or time.monotonic() - began < SECONDS:
        start = time.perf_counter()
        run()
        wait()
        durations.append(time.perf_counter() - start)
    return statistics.median(durations)


def matrix_product(index: int) -> float:
    """FLOP/s of a bfloat16 matrix product on an accelerator."""
    device = _accelerator(index)
    left = torch.randn(MATRIX, MATRIX, device=device, dtype=torch.bfloat16)
    out = torch.empty_like(left)
    seconds = _median_seconds(lambda: torch.mm(left, left, out=out), lambda: torch.accelerator.synchronize(device))
    return 2 * MATRIX**3 / seconds


def memory_copy(index: int) -> float:
    """Bytes per second that an accelerator reads and writes."""
    device = _accelerator(index)
    source = torch.ones(COPIED_BYTES // 4, device=device)
    target = torch.empty_like(source)
    seconds = _median_seconds(lambda: target.copy_(source), lambda: torch.accelerator.synchronize(device))
    return 2 * COPIED_BYTES / seconds


def all_reduce(end: PairEnd) -> float:
    """Bytes per second of an all-reduce of 64 MiB between the first devices of two nodes; 1 MiB over a slow network.

    The store listens on the interface of the nodes only, at the port that the screening has chosen. TimeoutError if
    data of the other node does not arrive.
    """
    if end.interface:
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(name, end.interface)
    device = torch.device("cpu") if end.on_cpu else _accelerator(0)
    backend = "gloo" if end.on_cpu else torch.distributed.get_default_backend_for_device(device)
    listening = None
    options = {}
    if end.rank == 0:
        family = socket.AF_INET6 if ":" in end.address else socket.AF_INET
        listening = socket.create_server((end.address, end.port), family=family)
        options = {"master_listen_fd": listening.detach()}
    store = torch.distributed.TCPStore(end.address, end.port, 2, end.rank == 0, TIMEOUT, **options)
    torch.distributed.init_process_group(backend, store=store, rank=end.rank, world_size=2, timeout=TIMEOUT)
    began = time.monotonic()
    try:

        def seconds(size: int) -> float:
            data = torch.ones(size // 4, device=device)
            start = time.perf_counter()
            torch.distributed.all_reduce(data)
            if not end.on_cpu:
                torch.accelerator.synchronize(device)
            return time.perf_counter() - start

        seconds(SLOW_BYTES)  # the first one connects
        slowest = torch.tensor([seconds(SLOW_BYTES)], device=device)
        torch.distributed.all_reduce(slowest, torch.distributed.ReduceOp.MAX)
        size = SLOW_BYTES if slowest.item() > SLOW_SECONDS else REDUCED_BYTES
        return size / statistics.median([seconds(size) for _ in range(3)])
    except RuntimeError as error:
        if time.monotonic() - began < 0.9 * TIMEOUT.total_seconds():
            raise
        raise TimeoutError(f"no data for {TIMEOUT.total_seconds():g} s") from error
    finally:
        torch.distributed.destroy_process_group()
