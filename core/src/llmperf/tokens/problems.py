"""The error for data that cannot be used."""

from __future__ import annotations

from pathlib import Path

from llmperf.errors import UserError


class DataError(UserError):
    """Data that cannot be used: which setting leads to them, and what is wrong."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where
        self.message = message


def local_path(text: str) -> Path:
    """The path that `data.path` names; DataError for a pipe, a socket or a device: to read one need not end."""
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:  # ~NAME of nobody here
        raise DataError("data.path", f"{text}: {error}") from None
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError("data.path", f"{path} is neither a regular file nor a folder")
    return path
