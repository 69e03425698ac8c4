"""Calls of `llmperf` in processes of their own: a plugin, a trial out of memory or a crash does not end the search."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmperf.errors import UserError
from llmperf.launching import end_with_parent

PREFIX = "llmperf: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A call of `llmperf` that has ended."""

    code: int
    """Its exit code; negative for a signal."""
    document: Any
    """JSON that it printed; None if it printed no JSON."""
    error: str
    """The last line on standard error."""


def llmperf(words: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Ended:
    """Run `llmperf WORDS`, with standard error in a file. The process ends with this one, also if that is killed."""
    command = [sys.executable, "-P", "-m", "llmperf", *words] if sys.version_info >= (3, 11) else \
        [sys.executable, "-m", "llmperf", *words]  # fmt: skip
    with log.open("ab") as errors:
        begin = errors.tell()
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **(env or {})},
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
        try:
            output, _ = process.communicate()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    try:
        document = json.loads(output)
    except ValueError:
        document = None
    with log.open("rb") as file:
        file.seek(begin)
        lines = file.read()[-4000:].decode(errors="replace").splitlines()
    last = next((line for line in reversed(lines) if line.strip()), "")
    return Ended(code=process.returncode, document=document, error=last.removeprefix(PREFIX))


def asked(words: Sequence[str], log: Path) -> Any:
    """The JSON document of a call that must not fail; UserError with its message if it does."""
    ended = llmperf(words, log)
    if ended.document is None:
        raise UserError(ended.error or f"llmperf {' '.join(words)}: ended with {ended.code} and no document; see {log}")
    return ended.document
