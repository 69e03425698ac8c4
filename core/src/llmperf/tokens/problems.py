"""The error for data that cannot be used."""

from __future__ import annotations

from llmperf.errors import UserError


class DataError(UserError):
    """Data that cannot be used: which setting leads to them, and what is wrong."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where
        self.message = message
