"""A device type that computes nothing: fake tensors are on it, and never hold data."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import torch

NAME = "traced"
"""Name of the device type, registered as torch's PrivateUse1."""
MEMORY_BYTES = 2**40
"""Memory size reported to libraries that ask: more than any case needs."""


class Stream:
    """An order of work; work on a stream other than the default one overlaps with it."""

    current: Stream
    stream_id = device_index = 0
    device_type = 20  # torch's number of device types of others

    def __init__(self, *_: object, **__: object) -> None:
        self._outer: list[Stream] = []

    def wait_stream(self, other: object) -> None:
        """Work of another stream comes first."""

    def wait_event(self, event: object) -> None:
        """Wait until the event has passed."""

    def record_event(self, event: Event | None = None) -> Event:
        """A mark at the end of the stream."""
        return event or Event()

    def query(self) -> bool:
        """Check whether all is done."""
        return True

    def synchronize(self) -> None:
        """Block the host until all is done."""
        HOST_WAITS.note("Stream.synchronize")

    def __enter__(self) -> Stream:
        self._outer.append(Stream.current)
        Stream.current = self
        return self

    def __exit__(self, *_: object) -> None:
        Stream.current = self._outer.pop()


DEFAULT_STREAM = Stream()
Stream.current = DEFAULT_STREAM


class Event:
    """A mark in a stream. It is an event of torch and, by its last two methods, of llmperf's devices."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def record(self, stream: object = None) -> None:
        """Set the mark."""

    def wait(self, stream: object = None) -> None:
        """A stream continues after the mark."""

    def query(self) -> bool:
        """Check whether the mark has been passed."""
        return True

    def synchronize(self) -> None:
        """Block the host until the mark has been passed."""
        HOST_WAITS.note("Event.synchronize")

    def elapsed_time(self, end: object) -> float:
        """Milliseconds between two marks: none, since nothing runs."""
        return 0.0

    def ready(self) -> bool:
        """Check whether the mark has been passed."""
        return True

    def seconds_since(self, earlier: object) -> float:
        """Nothing takes time."""
        return 0.0


class Module:
    """The device module of torch, `torch.traced`."""

    def is_initialized(self) -> bool:
        """Always."""
        return True

    def is_available(self) -> bool:
        """Always."""
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        """One in each process."""
        return 1

    def current_device(self) -> int:
        """Its index."""
        return 0

    def set_device(self, device: object) -> None:
        """There is no other."""

    def manual_seed(self, seed: int) -> None:
        """Nothing is drawn."""

    manual_seed_all = manual_seed

    def get_rng_state(self, device: object = None) -> torch.Tensor:
        """No state."""
        return torch.zeros(16, dtype=torch.uint8, device="cpu")

    def set_rng_state(self, state: torch.Tensor, device: object = None) -> None:
        """No state."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """For autocast."""
        return [torch.float16, torch.bfloat16]

    def stream(self, stream: Stream | None) -> Any:
        """A context in which a stream is the current one."""
        return contextlib.nullcontext() if stream is None else stream

    def current_stream(self, device: object = None) -> Stream:
        """The one that work goes to."""
        return Stream.current

    def default_stream(self, device: object = None) -> Stream:
        """The one that work goes to if nothing else is said."""
        return DEFAULT_STREAM

    def set_stream(self, stream: Stream) -> None:
        """Make a stream the current one."""
        Stream.current = stream

    def synchronize(self, device: object = None) -> None:
        """Block the host until all work is done."""
        HOST_WAITS.note("synchronize")

    def empty_cache(self) -> None:
        """Nothing is cached."""

    def memory_allocated(self, device: object = None) -> int:
        """Not counted here."""
        return 0

    max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated

    def reset_peak_memory_stats(self, device: object = None) -> None:
        """Not counted here."""

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        """Bytes that are free, and all."""
        return MEMORY_BYTES, MEMORY_BYTES

    def memory_stats(self, device: object = None) -> dict[str, int]:
        """Not counted here."""
        return {}


class TracedDevice:
    """A `llmperf.types.Device` for trainers that are traced."""

    places: Mapping[str, str] = {"torch": f"{NAME}:0"}
    collective_backend = "fake"

    def event(self) -> Event:
        """A mark."""
        return Event()

    def synchronize(self) -> None:
        """Nothing runs."""

    def peak_memory_bytes(self) -> int | None:
        """Not counted here."""
        return None

    def reset_peak_memory(self) -> None:
        """Not counted here."""

    def close(self) -> None:
        """Nothing to release."""

    def __enter__(self) -> TracedDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class _NoListener:
    """Where host waits go while nothing is traced."""

    def note(self, operation: str) -> None:
        """Forgotten."""


class HostWaitNotes:
    """Where the device reports that the host waits for it."""

    def __init__(self) -> None:
        self._listener: Any = _NoListener()

    def note(self, operation: str) -> None:
        """The host waits."""
        self._listener.note(operation)

    @contextlib.contextmanager
    def to(self, listener: Any) -> Iterator[None]:
        """Until the context ends, waits go to `listener.note(operation)`."""
        before, self._listener = self._listener, listener
        try:
            yield
        finally:
            self._listener = before


HOST_WAITS = HostWaitNotes()
_registered: list[str] = []
setattr(Module, "Stream", Stream)  # noqa: B010 - as names in the class they would hide the types
setattr(Module, "Event", Event)  # noqa: B010


def register_device_type() -> None:
    """Make torch know the device type; once in a process."""
    if _registered:
        return
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    from llmperf_pytorch.tracing.autocast import register_autocast

    _setup_privateuseone_for_python_backend(NAME, backend_module=Module())
    register_autocast()
    _registered.append(NAME)
