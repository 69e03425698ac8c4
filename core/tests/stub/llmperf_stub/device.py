from __future__ import annotations

import time


class StubEvent:
    def __init__(self):
        self.at = time.perf_counter()

    def ready(self):
        return True

    def seconds_since(self, earlier):
        return self.at - earlier.at


class StubDevice:
    torch_device = None
    paddle_place = None
    collective_backend = "none"

    def event(self):
        return StubEvent()

    def synchronize(self):
        pass

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
