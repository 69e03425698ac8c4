"""A rank's card through runtimes that only play: no XPU has been asked."""

import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from llmperf.errors import PluginError
from llmperf_kunlunxin.plugin import llmperf_setup_device


class Matrix:
    def __matmul__(self, other):
        time.sleep(0.001)
        return self


def plan_for(runtime):
    worker = SimpleNamespace(needs=SimpleNamespace(runtime=runtime))
    return SimpleNamespace(worker=worker, probe=SimpleNamespace(simulated=False))


@pytest.mark.parametrize("event", ["clock", "stopped"])
def test_xpytorch_shows_a_card_as_a_cuda_device(monkeypatch, played, event):
    cuda = played.runtime("synchronize", "reset_peak_memory_stats", "set_device", event=played.events[event])
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, ones=lambda *shape, device: Matrix()))
    monkeypatch.setitem(sys.modules, "torch_xmlir", SimpleNamespace())
    with llmperf_setup_device(plan_for("torch"), 3) as device:
        assert (device.places, device.collective_backend) == ({"torch": "cuda:3"}, "nccl")
        first = device.event()
        time.sleep(0.01)
        assert 0.008 < device.event().seconds_since(first) < 5  # also where the runtime's own tell 0
        assert (device.peak_memory_bytes(), device.peak_reserved_bytes()) == (10, 20)
    assert played.calls[0] == ("set_device", 3)
    assert played.calls[-1] == ("empty_cache",)


def test_paddle_sees_an_xpu(monkeypatch, played):
    xpu = played.runtime("synchronize", "reset_max_memory_allocated", "reset_max_memory_reserved")
    device = SimpleNamespace(xpu=xpu, Event=xpu.Event, is_compiled_with_xpu=lambda: True)
    paddle = SimpleNamespace(device=device, set_device=played.calls.append, ones=lambda shape: Matrix())
    monkeypatch.setitem(sys.modules, "paddle", paddle)
    monkeypatch.setitem(sys.modules, "torch", None)
    with llmperf_setup_device(plan_for("paddle"), 2) as answer:
        assert (answer.places, answer.collective_backend) == ({"paddle": "xpu:2"}, "bkcl")
        answer.reset_peak_memory()
    assert played.calls[0] == "xpu:2"
    resets = [("reset_max_memory_allocated", 2), ("reset_max_memory_reserved", 2)]
    assert played.calls[-3:] == [*resets, ("empty_cache",)]


@pytest.mark.parametrize(
    ("module", "content", "message"),
    [
        ("torch_xmlir", None, r"XPyTorch, .*, cannot be imported"),
        ("torch_xmlir", {"LLMPERF_STAND_IN": {"torch_device": "cpu", "collective_backend": "gloo"}}, "stand-in"),
        ("paddle", {"__version__": "3.3.1", "device": SimpleNamespace(is_compiled_with_xpu=lambda: False)},
         r"paddle 3\.3\.1 is not built for XPUs"),
    ],
)  # fmt: skip
def test_a_runtime_that_cannot_use_a_card_is_one_line(monkeypatch, module, content, message):
    """Not there; a stand-in on a real machine; built for other devices."""
    monkeypatch.setitem(sys.modules, module, None if content is None else SimpleNamespace(**content))
    with pytest.raises(PluginError, match=message):
        llmperf_setup_device(plan_for("paddle" if module == "paddle" else "torch"), 0)


def test_probing_and_sampling_need_no_runtime(machines, card):
    machines.play(card())
    code = (
        "import sys; sys.modules['torch'] = sys.modules['paddle'] = sys.modules['numpy'] = None;"
        " from llmperf.plugins.loading import load_for; p = load_for('kunlunxin', None);"
        " print(len(p.ask('llmperf_probe').devices), p.ask('llmperf_query_memory', devices=(0,))[0].power_watts)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["1", "150.0"], done.stderr
