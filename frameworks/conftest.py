"""Starting ranks of a framework for tests."""

import importlib.util
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SHARED_PROGRAMS = Path(__file__).parent / "pytorch" / "tests"
PROGRAM = SHARED_PROGRAMS / "rank_program.py"
FORKS = SHARED_PROGRAMS / "fork_ranks.py"
SHARED = {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
TORCH = ("torch.distributed", "torch._dynamo", "llmperf_pytorch.ddp")
MODULES = {
    "pytorch": TORCH,
    "lora": (*TORCH, "peft"),
    "zero": (*TORCH, "deepspeed", "torch._inductor.compile_fx"),
    "megatron_deepspeed": (*TORCH, "deepspeed", "torch._inductor.compile_fx"),
    "transformers": (*TORCH, "deepspeed", "llmperf_transformers.trainer"),
    "megatron_core": (*TORCH, "llmperf_megatron_core.limits"),
    "torchtitan": (*TORCH, "datasets", "torchdata.stateful_dataloader", "tyro", "llmperf_torchtitan.limits"),
    "paddle": ("paddle.distributed.fleet", "llmperf_paddle.trainer"),
}
"""What the ranks of a framework import, by framework."""


class Forks:
    """One process with the modules of the last launch: its forks are the ranks of launches with the same modules."""

    def __init__(self):
        self._key, self._process = None, None

    def launch(self, program, frameworks, variables, words, ranks, seconds):
        """The exit codes of the ranks, each of which is `{"log": PATH, "env": {...}}`."""
        key = (str(program), tuple(sorted(frameworks)), tuple(sorted(variables.items())))
        if key != self._key:
            self.close()
            modules = dict.fromkeys(module for framework in frameworks for module in MODULES[framework])
            command = [sys.executable, str(FORKS), str(program), *modules]
            path = os.pathsep.join([str(SHARED_PROGRAMS), *filter(None, [os.environ.get("PYTHONPATH")])])
            env = {**os.environ, "PYTHONPATH": path, **SHARED, **variables}
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, start_new_session=True)
            self._key = key
        self._process.stdin.write(json.dumps({"words": words, "ranks": ranks}).encode() + b"\n")
        self._process.stdin.flush()
        ready = select.select([self._process.stdout], [], [], seconds)[0]
        line = self._process.stdout.readline() if ready else b""
        if not line:
            self.close()
        return json.loads(line or "null")

    def close(self):
        """End the process and its forks."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
        self._key, self._process = None, None


@pytest.fixture(scope="session")
def program():
    """`rank_program.py` as a module."""
    specification = importlib.util.spec_from_file_location("rank_program", PROGRAM)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def forks():
    """What starts the ranks of a module."""
    made = Forks()
    yield made
    made.close()


@pytest.fixture(scope="module")
def train_torch(tmp_path_factory, forks):
    """A function that trains tasks on so many ranks: `train_torch(tasks, ranks)` gives one result a task."""

    def run(tasks, ranks, program=None, seconds=280, **variables):
        folder = tmp_path_factory.mktemp("ranks")
        (folder / "tasks.json").write_text(json.dumps(tasks))
        words = [str(folder / "tasks.json"), str(folder / "results.json")]
        started = [{"log": str(folder / f"rank-{rank}.log"), "env": env} for rank, env in enumerate(_each(ranks))]
        on_gpu = any(task.get("device", "cpu").startswith("cuda") for task in tasks)  # CUDA does not survive a fork
        frameworks = () if on_gpu else {task["framework"] for task in tasks}
        codes = forks.launch(program or PROGRAM, frameworks, variables, words, started, seconds)
        logs = "\n".join(path.read_text() for path in sorted(folder.glob("*.log")))
        assert codes == [0] * ranks, logs
        return json.loads((folder / "results.json").read_text())

    return run


@pytest.fixture(scope="module")
def train(train_torch):
    """The same, by the ranks of the plain PyTorch plugin."""
    return train_torch


def _each(ranks):
    """The variables of each rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for rank in range(ranks):
        own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
        own |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        yield {name: str(value) for name, value in own.items()}
