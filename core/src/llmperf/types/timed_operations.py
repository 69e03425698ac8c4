"""Single operations that ranks time: what is asked of a framework, and what it hands back."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Protocol

from llmperf.types.frozen import dataclass
from llmperf.types.units import Positive

TimedKind = Literal["matmul", "attention", "copy", "read", "launch", "all_reduce", "all_gather"]
"""Kinds of timed operation. `attention`: causal, forward and backward; `launch`: kernels that compute nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationToTime:
    """One operation of known size."""

    kind: TimedKind
    """Kind of the operation."""
    dtype: str
    """Dtype as in `PeakFlops.dtype`; `tf32` is float32 data whose products may be computed in it."""
    shape: tuple[Positive, ...]
    """`matmul`: batch, rows, columns, inner size. `attention`: batch, heads, tokens, head size. `launch`: kernels.
    `copy` and `read`: bytes of the source. Collectives: bytes of the summed or the gathered tensor on one rank."""


class PreparedOperation(Protocol):
    """An operation with its tensors, ready to run any number of times."""

    def run(self) -> None:
        """Hand it to the device once, without waiting for the device."""

    def check(self) -> str | None:
        """Compare the output with a reference that is computed in another way; one line that says what is wrong."""


class TimedOperations(Protocol):
    """Operations of one rank's device; a context manager. The caller runs them, times them and checks their outputs."""

    conditions: Mapping[str, str]
    """Conditions of the figures, by name: version of the tensor library, threads."""

    def prepare(self, operation: OperationToTime) -> PreparedOperation | None:
        """The operation with its tensors allocated and filled; None if the device or the library does not have it.

        The tensors of the previous operation may be freed.
        """

    def agree(self, figure: float) -> float:
        """The largest of all ranks' figures; also a barrier."""

    def __enter__(self) -> TimedOperations: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
