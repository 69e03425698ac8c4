"""What trainers built on torch have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from types import TracebackType

from llmperf.types import StepOutput
from typing_extensions import Self


class TorchTrainer(ABC):
    """A `llmperf.types.Trainer` without an evaluation, which is closed only if it ended without an error."""

    parameter_count: int
    """Parameters of the whole model, set while it is built."""

    @abstractmethod
    def train_step(self) -> StepOutput:
        """One optimiser step."""

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds."""

    def evaluate(self) -> Mapping[str, float] | Iterator[Mapping[str, float]]:
        """Nothing beyond the training loss."""
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:  # a failing rank must not wait for the others
            self.close()
