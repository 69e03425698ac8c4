"""Starting ranks for tests."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("rank_program.py")


@pytest.fixture(scope="session")
def program():
    """`rank_program.py` as a module."""
    specification = importlib.util.spec_from_file_location("rank_program", PROGRAM)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def train(tmp_path_factory):
    """A function that trains tasks on so many ranks: `train(tasks, ranks)` gives one result a task."""

    def run(tasks, ranks, program=None, seconds=280, **variables):
        folder = tmp_path_factory.mktemp("ranks")
        (folder / "tasks.json").write_text(json.dumps(tasks))
        command = [sys.executable, str(program or PROGRAM), str(folder / "tasks.json"), str(folder / "results.json")]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        env = {**os.environ, **_shared(ranks, port), **variables}
        started = []
        for rank in range(ranks):
            own = {**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            log = (folder / f"rank-{rank}.log").open("w")
            started.append(subprocess.Popen(command, env=own, stdout=log, stderr=subprocess.STDOUT))
        try:
            codes = [process.wait(timeout=seconds) for process in started]
        finally:
            for process in started:
                process.kill()
        logs = "\n".join(path.read_text() for path in sorted(folder.glob("*.log")))
        assert codes == [0] * ranks, logs
        return json.loads((folder / "results.json").read_text())

    return run


def _shared(ranks, port):
    return {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
    }
