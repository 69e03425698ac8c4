"""A real GPU: events, synchronising, peak memory, samples, a whole run."""

import json
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from llmperf.plugins.loading import load_for


def no_gpu():
    """Why the tests here cannot run; None where they can."""
    answer = load_for("nvidia", None).ask("llmperf_probe")
    if not answer.devices:
        return answer.problems[0]
    import torch

    return None if torch.cuda.is_available() else "torch sees no CUDA device"


PLAN = SimpleNamespace(needs=SimpleNamespace(runtime="torch"))
"""The part of a plan that binding a device needs."""
REASON = no_gpu()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=f"no NVIDIA GPU: {REASON}")]


def test_events_and_synchronise():
    import torch

    with load_for("nvidia", None).ask("llmperf_setup_device", plan=PLAN, local_rank=0) as device:
        square = torch.rand(8192, 8192, device=device.places["torch"])
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


def test_peak_memory_rises_and_begins_anew():
    import torch

    with load_for("nvidia", None).ask("llmperf_setup_device", plan=PLAN, local_rank=0) as device:
        device.reset_peak_memory()
        before = device.peak_memory_bytes()
        block = torch.empty(2**28, dtype=torch.uint8, device=device.places["torch"])
        assert device.peak_memory_bytes() - before >= 2**28
        assert device.peak_reserved_bytes() >= device.peak_memory_bytes()
        del block
        device.reset_peak_memory()
        assert device.peak_memory_bytes() < 2**28


def test_samples_of_the_whole_gpu():
    plugins = load_for("nvidia", None)
    device = plugins.ask("llmperf_probe").devices[0]
    (sample,) = plugins.ask("llmperf_query_memory", devices=(device.index,))
    assert 0 < sample.memory_used_bytes < sample.memory_total_bytes == device.memory_bytes
    assert sample.power_watts > 0
    assert sample.throttle_reasons is not None
    begin = time.perf_counter()
    for _ in range(20):
        plugins.ask("llmperf_query_memory", devices=(device.index,))
    assert (time.perf_counter() - begin) / 20 < 0.1


def test_the_energy_counter_agrees_with_power():
    plugins = load_for("nvidia", None)
    index = plugins.ask("llmperf_probe").devices[0].index
    (first,) = plugins.ask("llmperf_query_memory", devices=(index,))
    if first.energy_joules is None:
        pytest.skip("this GPU has no energy counter")
    begin, watts = time.perf_counter(), []
    while (seconds := time.perf_counter() - begin) < 3:
        watts.append(plugins.ask("llmperf_query_memory", devices=(index,))[0].power_watts)
        time.sleep(0.1)
    (last,) = plugins.ask("llmperf_query_memory", devices=(index,))
    assert (last.energy_joules - first.energy_joules) / seconds == pytest.approx(sum(watts) / len(watts), rel=0.3)


def test_a_run_on_one_gpu(tmp_path):
    command = [sys.executable, "-m", "llmperf", "run", "default", "--vendor", "nvidia", "--devices", "1"]
    command += ["--set", "steps=400", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("*/result.json")
    result = json.loads(path.read_text())
    assert result["status"] == "complete"
    assert result["hardware"]["vendor"] == "nvidia"
    metrics = result["metrics"]
    assert metrics["tokens_per_second_per_device"] > 0
    assert metrics["rank_memory"][0]["reserved_bytes"] >= metrics["rank_memory"][0]["peak_bytes"] > 0
    assert metrics["power_watts"] > 0
