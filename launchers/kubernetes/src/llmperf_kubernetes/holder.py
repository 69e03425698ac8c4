"""The first process of each pod: it keeps the pod alive while llmperf uses it, and ends it when nobody does."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

NODE_RANK = b"LLMPERF_NODE_RANK="
"""Commands of llmperf have this variable (`llmperf.types.NODE_RANK`)."""
SECONDS_BETWEEN_LOOKS = 5.0
ENDED, FORGOTTEN = 0, 1


def hold(wait_seconds: float, idle_seconds: float, look_seconds: float = SECONDS_BETWEEN_LOOKS) -> int:
    """Wait for SIGTERM (0), or for `idle_seconds` without a command (1), `wait_seconds` more for the first."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(ENDED)

    signal.signal(signal.SIGTERM, end)  # without a handler, the first process of a pod ignores it
    signal.signal(signal.SIGINT, end)
    deadline = time.monotonic() + wait_seconds + idle_seconds
    while True:
        # collect ended processes: those whose parent has ended are children of the first process of a pod
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if in_use():
            deadline = time.monotonic() + idle_seconds
        elif time.monotonic() > deadline:
            print(f"llmperf: no command for {idle_seconds:.0f} s; the pod ends", file=sys.stderr, flush=True)
            return FORGOTTEN
        time.sleep(look_seconds)


def in_use() -> bool:
    """Check whether a command of llmperf runs in this pod."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with suppress(OSError):
                if NODE_RANK in (folder / "environ").read_bytes():
                    return True
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """The command of the container."""
    parser = argparse.ArgumentParser(prog="python -m llmperf_kubernetes.holder", description=__doc__)
    parser.add_argument("--wait-minutes", type=float, required=True, metavar="N")
    parser.add_argument("--idle-minutes", type=float, required=True, metavar="N")
    options = parser.parse_args(arguments)
    return hold(options.wait_minutes * 60, options.idle_minutes * 60)


if __name__ == "__main__":
    sys.exit(main())
