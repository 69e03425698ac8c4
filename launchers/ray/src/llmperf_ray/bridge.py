"""`python -m llmperf_ray.bridge` runs a command in an actor of each node, with its input, and prints whole lines."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from llmperf_ray import node_actor
from llmperf_ray.cluster import connect, problem_of, stdout_for_answers
from llmperf_ray.launcher import COMMANDS

CHUNK_BYTES = 1 << 18


class Stream:
    """One of this process's output streams, to which several nodes write in turn."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lock = asyncio.Lock()

    async def write(self, data: bytes) -> None:
        """Write whole lines; a slow reader keeps only writers waiting."""
        if not data:
            return
        async with self._lock:
            await asyncio.to_thread(self._write, data if data.endswith(b"\n") else data + b"\n")

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._file.flush()


class Remote:
    """The actor of one node."""

    def __init__(self, group: Mapping[str, Any], command: Mapping[str, Any], actor: Any) -> None:
        self._actor = actor
        self._argv = command.get("argv", group["argv"])
        self._env = {**group["env"], **command["env"]}
        self._sets_threads = "OMP_NUM_THREADS" in group["runtime_env"].get("env_vars", {})
        self._name = f"node {command['node_rank']} ({command['host']})"
        self.input: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def run(self, stdout: Stream, stderr: Stream) -> int:
        """Run the command to its end; its exit code, or 1 if the actor was lost."""
        feeding = None
        try:
            problem = await self._actor.start.remote(self._argv, self._env, self._sets_threads)
            if problem is not None:
                await stderr.write(f"{self._name}: {problem}\n".encode())
                return 127
            feeding = asyncio.create_task(self._feed())
            code = None
            while code is None:
                output, errors, code = await self._actor.read.remote()
                await stdout.write(output)
                await stderr.write(errors)
            return int(code)
        except Exception as error:  # Ray raises many kinds; the other nodes go on
            await stderr.write(f"{self._name}: {problem_of(error)}\n".encode())
            return 1
        finally:
            if feeding is not None:
                feeding.cancel()

    async def _feed(self) -> None:
        """Pass standard input on, one call after the other: Ray does not keep the order of calls."""
        ended = False
        while not ended:
            chunks = [await self.input.get()]
            while not self.input.empty():
                chunks.append(self.input.get_nowait())
            ended = chunks[-1] is None
            if data := b"".join(chunk for chunk in chunks if chunk is not None):
                await self._actor.write.remote(data)
        await self._actor.write.remote(None)


def read_input(loop: asyncio.AbstractEventLoop, remotes: Sequence[Remote]) -> None:
    """Give everything on standard input to all nodes, then its end."""

    def give(data: bytes | None) -> None:
        for remote in remotes:
            remote.input.put_nowait(data)

    while data := os.read(0, CHUNK_BYTES):
        loop.call_soon_threadsafe(give, data)
    loop.call_soon_threadsafe(give, None)


async def run(group: Mapping[str, Any], stdout: BinaryIO) -> int:
    """Run all commands; 0 if all ended with 0, otherwise the first other exit code."""
    import ray
    from ray import cloudpickle
    from ray.util import get_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    cloudpickle.register_pickle_by_value(node_actor)  # type: ignore[no-untyped-call]  # the nodes need no llmperf_ray
    placement = get_placement_group(group["group"])
    resources = dict(group["bundle"])
    options = {
        "num_cpus": resources.pop("CPU", 0),
        "num_gpus": resources.pop("GPU", 0),
        "resources": resources,
        "max_concurrency": 4,
        "max_restarts": 0,
        "runtime_env": group["runtime_env"] or None,
    }
    actor_class = ray.remote(node_actor.NodeActor)
    remotes = []
    for command in group["commands"]:
        bundle = PlacementGroupSchedulingStrategy(placement, command["node_rank"])
        actor = actor_class.options(scheduling_strategy=bundle, **options).remote()
        remotes.append(Remote(group, command, actor))
    threading.Thread(target=read_input, args=(asyncio.get_running_loop(), remotes), daemon=True).start()
    output, errors = Stream(stdout), Stream(sys.stderr.buffer)
    codes = await asyncio.gather(*(remote.run(output, errors) for remote in remotes))
    return next((code for code in codes if code), 0)


def main() -> int:
    """Run the commands in the variable `COMMANDS`."""
    stdout = stdout_for_answers()
    group = json.loads(os.environ.pop(COMMANDS))
    try:
        connect(group)
        code = asyncio.run(run(group, stdout))
    except Exception as error:  # Ray raises many kinds
        print(f"ray: {problem_of(error)}", file=sys.stderr, flush=True)
        code = 1
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
