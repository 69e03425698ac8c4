"""A real GPU: events, synchronising, peak memory, samples."""

from __future__ import annotations

import time

import pytest
from llmperf.plugins import load_for


def no_gpu() -> str | None:
    """Why the tests here cannot run; None where they can."""
    found = load_for("nvidia", None).ask("llmperf_probe")
    if not found.devices:
        return found.problems[0]
    import torch

    return None if torch.cuda.is_available() else "torch sees no CUDA device"


REASON = no_gpu()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=f"no NVIDIA GPU: {REASON}")]


def test_events_and_synchronise() -> None:
    import torch

    with load_for("nvidia", None).ask("llmperf_setup_device", plan=None, local_rank=0) as device:
        square = torch.rand(8192, 8192, device=device.torch_device)
        device.synchronize()
        first = device.event()
        start = time.perf_counter()
        for _ in range(20):
            square @ square
        second = device.event()
        assert not second.ready()  # the host came here before the device did
        device.synchronize()
        wall = time.perf_counter() - start
        assert second.ready()
        assert 0.2 * wall < second.seconds_since(first) <= 1.1 * wall


def test_peak_memory_rises_and_begins_anew() -> None:
    import torch

    with load_for("nvidia", None).ask("llmperf_setup_device", plan=None, local_rank=0) as device:
        device.reset_peak_memory()
        before = device.peak_memory_bytes()
        block = torch.empty(2**28, dtype=torch.uint8, device=device.torch_device)
        assert device.peak_memory_bytes() - before >= 2**28
        del block
        device.reset_peak_memory()
        assert device.peak_memory_bytes() < 2**28


def test_samples_of_the_whole_gpu() -> None:
    plugins = load_for("nvidia", None)
    device = plugins.ask("llmperf_probe").devices[0]
    (sample,) = plugins.ask("llmperf_query_memory", devices=(device.index,))
    assert 0 < sample.memory_used_bytes < sample.memory_total_bytes == device.memory_bytes
