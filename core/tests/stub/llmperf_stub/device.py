import time
from types import MappingProxyType

from llmperf_stub.torch.distributed import reached


class StubEvent:
    def __init__(self, barrier):
        self.at = time.perf_counter()
        self.barrier = barrier

    def ready(self):
        return self.barrier is None or reached(*self.barrier)

    def seconds_since(self, earlier):
        return self.at - earlier.at


class StubDevice:
    places = MappingProxyType({})
    collective_backend = "none"

    pending = None
    """The barrier that a device would wait at after the last step that it was given."""

    def event(self):
        return StubEvent(StubDevice.pending)

    def synchronize(self):
        while StubDevice.pending is not None and not reached(*StubDevice.pending):
            time.sleep(0.002)

    def peak_memory_bytes(self):
        return 4096

    def peak_reserved_bytes(self):
        return 8192

    def reset_peak_memory(self):
        pass

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
