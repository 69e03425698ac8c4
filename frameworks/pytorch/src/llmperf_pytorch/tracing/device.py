"""A device type that computes nothing: fake tensors are on it, and never hold data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
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
    """The device module of torch, `torch.traced`: one device, whose memory is not counted and which draws nothing."""

    def get_rng_state(self, device: object = None) -> torch.Tensor:
        """No state."""
        return torch.zeros(16, dtype=torch.uint8, device="cpu")

    def stream(self, stream: Stream | None) -> Any:
        """A context in which a stream is the current one."""
        return contextlib.nullcontext() if stream is None else stream

    def current_stream(self, device: object = None) -> Stream:
        """The one that work goes to."""
        return Stream.current

    def set_stream(self, stream: Stream) -> None:
        """Make a stream the current one."""
        Stream.current = stream

    def synchronize(self, device: object = None) -> None:
        """Block the host until all work is done."""
        HOST_WAITS.note("synchronize")


ANSWERS: Mapping[str, object] = {
    **dict.fromkeys(("is_initialized", "is_available"), True),
    "_is_in_bad_fork": False,
    "device_count": 1,
    **dict.fromkeys(("current_device", "memory_allocated", "memory_reserved"), 0),
    **dict.fromkeys(("max_memory_allocated", "max_memory_reserved"), 0),
    "mem_get_info": (MEMORY_BYTES, MEMORY_BYTES),
    "memory_stats": {},
    "default_stream": DEFAULT_STREAM,
    "get_amp_supported_dtype": [torch.float16, torch.bfloat16],
    **dict.fromkeys(("set_device", "manual_seed", "manual_seed_all", "set_rng_state", "empty_cache"), None),
    "reset_peak_memory_stats": None,
}
"""Functions of the device module that always answer the same."""


def _always(answer: object) -> Callable[..., object]:
    return lambda *_, **__: answer


for _name, _answer in ANSWERS.items():
    setattr(Module, _name, _always(_answer))


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


class HostWaitNotes:
    """Where the device reports that the host waits for it."""

    def __init__(self) -> None:
        self._listener: Any = None

    def note(self, operation: str) -> None:
        """The host waits; forgotten while nothing is traced."""
        if self._listener is not None:
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
