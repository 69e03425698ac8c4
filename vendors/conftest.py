"""A runtime of devices that only plays: no device is asked."""

import time
from types import MappingProxyType, SimpleNamespace

import pytest

PLAN = SimpleNamespace(needs=SimpleNamespace(runtime="torch"))
"""The part of a plan that binding a device needs."""


class _Clock:
    """An event that tells the time of the host."""

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = time.perf_counter()

    def query(self):
        return True

    def elapsed_time(self, later):
        return (later.at - self.at) * 1000


class _Event(_Clock):
    def elapsed_time(self, later):
        return 250.0


class _Stopped(_Clock):
    def elapsed_time(self, later):
        return 0.0


class _Missing(_Clock):
    def elapsed_time(self, later):
        raise RuntimeError("not supported")


class _Played:
    """Makes namespaces such as `torch.cuda` whose functions note their calls."""

    plan = PLAN
    events = MappingProxyType({"clock": _Clock, "stopped": _Stopped, "missing": _Missing})
    """That tell time, always 0, and nothing."""

    def __init__(self):
        self.calls = []

    def runtime(self, *names, event=_Event):
        noted = {name: lambda *at, name=name: self.calls.append((name, *at)) for name in names}
        noted["empty_cache"] = lambda: self.calls.append(("empty_cache",))
        known = {"max_memory_allocated": lambda at: 10, "max_memory_reserved": lambda at: 20}
        return SimpleNamespace(Event=event, **known, **noted)

    def use(self, device):
        """What a run does with a device."""
        first, second = device.event(), device.event()
        assert second.ready()
        assert second.seconds_since(first) == 0.25
        device.reset_peak_memory()
        device.synchronize()
        assert (device.peak_memory_bytes(), device.peak_reserved_bytes()) == (10, 20)


@pytest.fixture
def played():
    """A runtime that plays."""
    return _Played()
