"""A rank's card through runtimes that only play: no XPU has been asked."""

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from llmperf.errors import PluginError
from llmperf_kunlunxin.plugin import llmperf_setup_device

STAND_IN = Path(__file__).parent / "stand_in"


class Event:
    """Tells time, or always 0."""

    stopped = False

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = time.perf_counter()

    def query(self):
        return True

    def elapsed_time(self, later):
        return 0.0 if self.stopped else (later.at - self.at) * 1000


class Stopped(Event):
    stopped = True


class Matrix:
    def __matmul__(self, other):
        time.sleep(0.001)
        return self


def plan_for(runtime, simulated=False):
    worker = SimpleNamespace(needs=SimpleNamespace(runtime=runtime))
    return SimpleNamespace(worker=worker, probe=SimpleNamespace(simulated=simulated))


def fresh(monkeypatch, **modules):
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def calls():
    return []


def namespace(calls, event):
    def noted(name):
        return lambda *at: calls.append((name, *at))

    names = ("synchronize", "reset_peak_memory_stats", "empty_cache", "set_device")
    known = {"max_memory_allocated": lambda at: 10, "max_memory_reserved": lambda at: 20}
    return SimpleNamespace(Event=event, **known, **{name: noted(name) for name in names})


@pytest.mark.parametrize("event", [Event, Stopped])
def test_xpytorch_shows_a_card_as_a_cuda_device(monkeypatch, calls, event):
    torch = SimpleNamespace(cuda=namespace(calls, event), ones=lambda *shape, device: Matrix())
    fresh(monkeypatch, torch=torch, torch_xmlir=SimpleNamespace())
    with llmperf_setup_device(plan_for("torch"), 3) as device:
        assert (device.places, device.collective_backend) == ({"torch": "cuda:3"}, "nccl")
        first = device.event()
        time.sleep(0.01)
        assert 0.008 < device.event().seconds_since(first) < 5  # also where the runtime's own tell 0
        assert (device.peak_memory_bytes(), device.peak_reserved_bytes()) == (10, 20)
    assert calls[0] == ("set_device", 3)
    assert calls[-1] == ("empty_cache",)


def test_without_xpytorch_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_xmlir", None)
    with pytest.raises(PluginError, match=r"XPyTorch, .*, cannot be imported"):
        llmperf_setup_device(plan_for("torch"), 0)


def test_a_stand_in_is_refused_on_a_real_machine(monkeypatch):
    mark = {"torch_device": "cpu", "collective_backend": "gloo"}
    fresh(monkeypatch, torch_xmlir=SimpleNamespace(LLMPERF_STAND_IN=mark))
    with pytest.raises(PluginError, match="stand-in"):
        llmperf_setup_device(plan_for("torch"), 0)


def test_paddle_sees_an_xpu(monkeypatch, calls):
    xpu = namespace(calls, Event)
    del xpu.reset_peak_memory_stats
    xpu.reset_max_memory_allocated = xpu.reset_max_memory_reserved = lambda at: calls.append(("reset", at))
    device = SimpleNamespace(xpu=xpu, Event=Event, is_compiled_with_xpu=lambda: True)
    paddle = SimpleNamespace(device=device, set_device=lambda place: calls.append(place), ones=lambda shape: Matrix())
    fresh(monkeypatch, paddle=paddle, torch=None)
    with llmperf_setup_device(plan_for("paddle"), 2) as answer:
        assert (answer.places, answer.collective_backend) == ({"paddle": "xpu:2"}, "bkcl")
        answer.reset_peak_memory()
    assert calls[0] == "xpu:2"
    assert calls[-3:] == [("reset", 2), ("reset", 2), ("empty_cache",)]


def test_paddle_without_xpus_is_one_line(monkeypatch):
    paddle = SimpleNamespace(__version__="3.3.1", device=SimpleNamespace(is_compiled_with_xpu=lambda: False))
    fresh(monkeypatch, paddle=paddle)
    with pytest.raises(PluginError, match=r"paddle 3\.3\.1 is not built for XPUs"):
        llmperf_setup_device(plan_for("paddle"), 0)


def test_probing_and_sampling_need_no_runtime(machines, card):
    machines.play(card())
    code = (
        "import sys; sys.modules['torch'] = sys.modules['paddle'] = sys.modules['numpy'] = None;"
        " from llmperf.plugins.loading import load_for; p = load_for('kunlunxin', None);"
        " print(len(p.ask('llmperf_probe').devices), p.ask('llmperf_query_memory', devices=(0,))[0].power_watts)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["1", "150.0"], done.stderr
