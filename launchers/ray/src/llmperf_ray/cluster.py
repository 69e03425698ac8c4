"""The connection of a child process with the user's Ray cluster."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

CONNECT_SECONDS = 10.0


def connect(group: Mapping[str, Any]) -> None:
    """Join the cluster as a driver; ConnectionError at once, not after minutes, if nobody listens."""
    host, colon, port = group["address"].rpartition(":")
    if colon:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS):
            pass
    # A driver below `uv run` would have Ray start its workers by `uv run` too, in environments without Ray.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    import ray

    ray.init(
        address=group["address"],
        namespace=group["namespace"],
        log_to_driver=False,
        logging_level=logging.ERROR,
        include_dashboard=False,
    )


def problem_of(error: Exception) -> str:
    """The first sentence of an exception of Ray, as one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    if isinstance(error, OSError):
        return f"address: found no Ray cluster: {error.strerror or text}"
    return f"{type(error).__name__}: {text}"


def stdout_for_answers() -> BinaryIO:
    """The standard output of this process for answers alone: whatever libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers
