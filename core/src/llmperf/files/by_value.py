"""Answers that are computed once for equal values, such as the model and the contract of thousands of results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from llmperf.files.json_files import encode

T = TypeVar("T")
MAX_ANSWERS = 1000
"""Answers that are kept by default."""


class ByValue(Generic[T]):
    """Answers by the values that they depend on. Values are equal if their JSON is, so 1, 1.0 and true are not."""

    def __init__(self, most: int = MAX_ANSWERS) -> None:
        self._most = most
        self._answers: dict[bytes, T] = {}

    def get(self, values: Any, make: Callable[[], T]) -> T:
        """The answer for some dataclasses, containers and scalars; `make` computes it if it is not known yet."""
        key = encode(values)
        if key not in self._answers:
            if len(self._answers) >= self._most:
                self._answers.clear()
            self._answers[key] = make()
        return self._answers[key]
