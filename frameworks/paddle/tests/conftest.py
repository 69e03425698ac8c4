"""Starting ranks for tests."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from llmperf.runfolder.create import fill
from llmperf_paddle.variables import rank_variables

PROGRAM = Path(__file__).with_name("paddle_rank_program.py")
SECONDS = 200


def load(path):
    """A Python file as a module."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


train_torch = load(Path(__file__).parents[2] / "pytorch" / "tests" / "conftest.py").train
"""The plain PyTorch plugin's `train`: results of all ranks together for each task."""


@pytest.fixture(scope="session")
def program():
    """The plain PyTorch plugin's `rank_program.py` as a module: specs and plans."""
    return load(PROGRAM).shared()


@pytest.fixture(scope="session")
def train(tmp_path_factory):
    """A function that trains tasks on so many ranks: `train(tasks, ranks)` gives the results of all ranks for each."""

    def run(tasks, ranks):
        folder = tmp_path_factory.mktemp("paddle")
        (folder / "tasks.json").write_text(json.dumps(tasks))
        command = [sys.executable, str(PROGRAM), str(folder / "tasks.json"), str(folder / "results")]
        started = []
        for rank, variables in enumerate(_environments(ranks)):
            with (folder / f"rank-{rank}.log").open("w") as log:
                env = {**os.environ, **variables}
                started.append(subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT))
        try:
            codes = [process.wait(timeout=SECONDS) for process in started]
        finally:
            for process in started:
                process.kill()
        logs = "\n".join(path.read_text()[-3000:] for path in sorted(folder.glob("*.log")))
        assert codes == [0] * ranks, logs
        of_ranks = [json.loads((folder / f"results.{rank}").read_text()) for rank in range(ranks)]
        return [list(one) for one in zip(*of_ranks, strict=True)]

    return run


def _environments(ranks):
    """Variables of each rank, as llmperf's agent makes them of the plugin's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    probe = SimpleNamespace(offers=SimpleNamespace(collective_backend="gloo"))
    templates = rank_variables(None, probe, SimpleNamespace(world_size=ranks))
    for rank in range(ranks):
        values = {
            "rank": rank,
            "local_rank": rank,
            "world_size": ranks,
            "local_world_size": ranks,
            "master_addr": "127.0.0.1",
            "master_port": port,
        }
        own = {name: fill(text, values) for name, text in templates.items()}
        yield {**{name.upper(): str(value) for name, value in values.items()}, **own, "OMP_NUM_THREADS": "1"}
