"""`python -m llmperf_fuzz.rank_server [RUN]`: its forks are ranks of runs that lines of standard input name."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn

import llmperf
from llmperf.launching import end_with_parent, leave, rank_environment, train_rank

SECONDS = 180
"""Time limit of ranks, which may import their framework; then they have hung."""
GRACE_SECONDS = 2.0
"""Time in which the other ranks end after one has failed."""
SAFE_THREADS = "jemalloc"
"""Of memory allocators that start again in a fork."""
LOOPBACK, MODULES = "127.0.0.1", "files/modules"


class NoDevice:
    """Ends the building of a trainer once it asks for its device: its framework has been imported then."""

    def __getattr__(self, name: str) -> NoReturn:
        raise LookupError(name)


def main() -> None:
    """Answer requests until standard input ends."""
    answers, warm = os.dup(1), len(sys.argv) > 1
    os.dup2(2, 1)
    if warm:
        plan = llmperf.load_plan(sys.argv[1])
        (entry,) = entry_points(group="llmperf.framework.v1", name=plan.spec.tuning.framework)
        with suppress(Exception):  # the plugin itself imports its framework, so that its stand-ins come first
            entry.load().llmperf_build_trainer(plan=plan, device=NoDevice())
    for line in iter(sys.stdin.readline, ""):
        runs = [Path(run) for run in json.loads(line)]
        ranks = {rank for run in runs for rank in started(run)}
        wait_for(ranks, time.monotonic() + SECONDS)
        if warm and (runs[0] / MODULES).exists():  # those that were imported later
            for name in (runs[0] / MODULES).read_text().split():
                with suppress(Exception):
                    import_module(name)
            warm = False
        os.write(answers, b"done\n")
        threads = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
        if sys.argv[1:] and sum(not name.startswith(SAFE_THREADS) for name in threads) > 1:
            # a fork has no other threads, but the locks that they hold
            os.dup2(answers, 1)
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:-1]])


def started(run: Path) -> Iterator[int]:
    """The process ids of the ranks of a run; they meet at a socket that rank 0 inherits."""
    plan, bind = llmperf.load_plan(run), end_with_parent(signal.SIGKILL)
    with socket.create_server((LOOPBACK, 0)) as store, socket.create_server((LOOPBACK, 0)) as free:
        for rank in range(plan.layout.world_size or 1):
            process = os.fork()
            if process == 0:
                with suppress(BaseException):
                    if bind is not None:
                        bind()
                    os.environ |= rank_environment(run, plan, 0, rank, LOOPBACK, free.getsockname()[1])
                    os.environ["LLMPERF_STORE_ADDRESS"] = "{}:{}".format(*store.getsockname())
                    if rank == 0:
                        os.environ["LLMPERF_STORE_FD"] = str(os.dup(store.fileno()))
                    free.close()
                    log = os.open(run / f"logs/rank-{rank}", os.O_WRONLY | os.O_CREAT)
                    os.dup2(log, 1)
                    os.dup2(log, 2)
                    code = train_rank(["--run-dir", str(run)])
                    if rank == 0:
                        (run / MODULES).write_text("\n".join(sys.modules))
                    leave(code)
                os._exit(1)
            yield process


def wait_for(running: set[int], deadline: float) -> None:
    """Wait until all processes have ended; kill those that take too long, or longer than one that has failed."""
    while running and time.monotonic() < deadline:
        for process in [*running]:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                running.remove(process)
            if status != 0:
                deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
        time.sleep(0.01)
    for process in running:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


if __name__ == "__main__":
    main()
