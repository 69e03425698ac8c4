"""The node agent: `python -m llmperf.launching.agent` starts the ranks of one node and reports how each ended.

It works for every framework and imports none. If one rank fails, or the agent ends for any reason, all ranks end.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.launching.wakeup import Wakeup
from llmperf.measuring.processes import adopt_orphans, end_descendants, end_with_parent, oom_kills, send_group
from llmperf.runfolder import filenames
from llmperf.runfolder.create import fill
from llmperf.runfolder.endings import AGENT_MODULE, AgentReport, RankExit, SeenPhase
from llmperf.runfolder.logs import GrowingLog, shorten
from llmperf.types.launching import Interpreter
from llmperf.types.plan import Plan
from llmperf.types.records import Phase, PhaseRecord

RANK_MODULE = "llmperf.measuring.worker"
GRACE_SECONDS = 1.5
"""Time between asking a rank to end and killing it."""
LOOK_SECONDS = 0.2
"""From one look at the records of the ranks to the next: on a host that is not busy, no phase is seen later."""
STORE_BACKLOG = 1024
"""Connections that may wait until rank 0 opens its store."""


def python_module(module: str, interpreter: Interpreter | None = None) -> tuple[str, ...]:
    """The argv that runs a module with an interpreter, this one by default, without imports from the current folder."""
    path = sys.executable if interpreter is None else interpreter.path
    safe_path = sys.version_info >= (3, 11) if interpreter is None else interpreter.knows_safe_path
    return (path, *(("-P",) if safe_path else ()), "-m", module)


def agent_argv() -> tuple[str, ...]:
    """The argv of llmperf's own agent, for `WorkerPlan.agent`, with placeholders that the controller fills in."""
    placeholders = ("run_dir", "node_rank", "master_addr", "master_port")
    pairs = [(f"--{name.replace('_', '-')}", f"{{{name}}}") for name in placeholders]
    return (*python_module(AGENT_MODULE), *(word for pair in pairs for word in pair))


def agent_command(run: Path, plan: Plan, node_rank: int, master_address: str, master_port: int) -> tuple[str, ...]:
    """The agent of a node as the framework planned it, with its placeholders filled in."""
    values = {"run_dir": run, "master_addr": master_address, "master_port": master_port, "node_rank": node_rank}
    return tuple(fill(word, values) for word in plan.worker.agent)


def of_node(variables: Mapping[str, str], plan: Plan, node_rank: int) -> dict[str, str]:
    """Variables with `{interface}` and `{address}` filled in for one node, without those whose interface is unknown."""
    node = plan.nodes[node_rank] if node_rank < len(plan.nodes) else None
    known = {"interface": node.interface, "address": node.address} if node and node.interface else {}
    return {name: fill(value, known) for name, value in variables.items() if known or "{interface}" not in value}


def rank_environment(
    run: Path, plan: Plan, node_rank: int, local_rank: int, master_addr: str, master_port: int
) -> dict[str, str]:
    """The variables of one rank that the agent's own environment does not have."""
    per_node = plan.layout.devices_per_node
    values = {
        "rank": node_rank * per_node + local_rank,
        "local_rank": local_rank,
        "world_size": plan.layout.world_size,
        "local_world_size": per_node,
        "node_rank": node_rank,
        "master_addr": master_addr,
        "master_port": master_port,
    }
    standard = {name.upper(): str(value) for name, value in values.items()}
    ours = {"PYTHONUNBUFFERED": "1", "LLMPERF_RUN_DIR": str(run), "GROUP_RANK": str(node_rank)}
    own = {name: fill(value, {**values, "run_dir": run}) for name, value in plan.worker.rank_env.items()}
    return {**ours, **of_node(plan.env, plan, node_rank), **standard, **of_node(own, plan, node_rank)}


def inherited_environment(interpreter: Interpreter | None) -> dict[str, str]:
    """The agent's own variables, without those that would tie another interpreter to the agent's environment."""
    environment = dict(os.environ)
    if interpreter is not None:
        for name in ("PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"):
            environment.pop(name, None)
        if "/" in interpreter.path:
            path = os.environ.get("PATH", os.defpath)
            environment["PATH"] = os.pathsep.join([str(Path(interpreter.path).parent), path])
    return environment


PHASE = b'{"kind":"phase"'
"""Beginning of the line of a phase; of a file with a million steps, no other line is decoded."""
READ_BYTES = 2**20
UPTIME = Path("/proc/uptime")


class RankPhases:
    """The phases of one rank, in the order in which its records have them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self.seen: tuple[SeenPhase, ...] = ()
        """The first entry into each phase."""
        self.latest: Phase = "starting"
        """The phase that the rank is in."""
        self.readable = True
        """Whether all records could be read so far."""
        self._looks = (time.monotonic(), time.monotonic())
        """When the look before the latest began, and when the latest did."""

    def look(self) -> None:
        """Read what the rank has written since the last look."""
        if not self.readable:
            return
        self._looks = self._looks[1], time.monotonic()
        try:
            with json_files.open_regular(self._path) as file:
                file.seek(self._offset)
                while block := file.read(READ_BYTES):
                    self._offset += len(block)
                    *lines, self._rest = (self._rest + block).split(b"\n")
                    if not lines and len(self._rest) > READ_BYTES:
                        self.readable = False
                    for line in lines:
                        if line.startswith(PHASE):
                            self.latest = json_files.decode(line, PhaseRecord, str(self._path)).phase
                            if all(self.latest != seen.phase for seen in self.seen):
                                now = time.monotonic()
                                late = now - self._looks[0]
                                entered = SeenPhase(phase=self.latest, monotonic=now, uptime=uptime(), late=late)
                                self.seen += (entered,)
        except FileNotFoundError:
            pass
        except (OSError, UserError):  # the result reports the unreadable records
            self.readable = False


def uptime() -> float | None:
    """Seconds since the host started, by a text of its kernel, which no library replaces; None without it."""
    try:
        return float(UPTIME.read_bytes().split()[0])
    except (OSError, ValueError, IndexError):
        return None


class Agent:
    """Starts, watches and ends the ranks of one node."""

    def __init__(self, run: Path, plan: Plan, node_rank: int, master_addr: str, master_port: int) -> None:
        self._run = run
        self._plan = plan
        self._node_rank = node_rank
        self._master = (master_addr, master_port)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._exits: list[RankExit] = []
        self._logs: list[GrowingLog] = []
        self._phases: list[RankPhases] = []
        self._oom_kills = oom_kills()

    def run(self, wakeup: Wakeup) -> int:
        """Start all ranks and wait for them. Returns 0 if all succeeded, 1 if one failed, 128 + n after signal n."""
        run, plan, inherited = self._run, self._plan, inherited_environment(self._plan.interpreter)
        argv = [*python_module(RANK_MODULE, plan.interpreter), "--run-dir", str(run)]
        try:
            with ExitStack() as stack:
                store = None
                if plan.layout.nodes == 1:
                    store = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=STORE_BACKLOG))
                elif (descriptor := os.environ.get("LLMPERF_STORE_FD")) is not None:
                    store = stack.enter_context(socket.socket(fileno=int(descriptor)))
                for local_rank in range(plan.layout.devices_per_node):
                    rank = self._node_rank * plan.layout.devices_per_node + local_rank
                    environment = rank_environment(run, plan, self._node_rank, local_rank, *self._master)
                    passed_fds: tuple[int, ...] = ()
                    if store is not None:
                        environment["LLMPERF_STORE_ADDRESS"] = "{}:{}".format(*store.getsockname()[:2])
                        if rank == 0:
                            environment["LLMPERF_STORE_FD"] = str(store.fileno())
                            passed_fds = (store.fileno(),)
                    with filenames.log_path(run, rank).open("ab") as output:
                        process = subprocess.Popen(
                            argv,
                            env={**inherited, **environment},
                            stdin=subprocess.DEVNULL,
                            stdout=output,
                            stderr=subprocess.STDOUT,
                            start_new_session=True,
                            pass_fds=passed_fds,
                            preexec_fn=end_with_parent(signal.SIGKILL),
                        )
                    self._logs.append(GrowingLog(filenames.log_path(run, rank)))
                    self._phases.append(RankPhases(filenames.records_path(run, rank)))
                    self._processes.append(process)
                    self._exits.append(RankExit(rank=rank, pid=process.pid))
            self._report()
            while self._alive():
                wakeup.wait(LOOK_SECONDS)
                for phases in self._phases:
                    phases.look()
                for log in self._logs:
                    log.trim()
                self._reap()
                if wakeup.signal is not None or any(rank_exit.bad for rank_exit in self._exits):
                    self._stop(wakeup)
        finally:
            for process in self._processes:
                if process.returncode is None:
                    send_group(process.pid, signal.SIGKILL)
            end_descendants()
            for rank_exit in self._exits:
                shorten(filenames.log_path(self._run, rank_exit.rank))
        if wakeup.signal is not None:
            return 128 + wakeup.signal
        return 1 if any(rank_exit.bad for rank_exit in self._exits) else 0

    def _alive(self) -> bool:
        return any(process.returncode is None for process in self._processes)

    def _reap(self) -> None:
        """Record the ranks that have ended since the last call, and end the processes that they left."""
        before = list(self._exits)
        for index, process in enumerate(self._processes):
            if process.returncode is not None:
                continue
            if sys.platform == "linux":  # without reaping it
                ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            else:
                ended = process.poll() is not None
            if not ended:
                continue
            at = time.time()
            send_group(process.pid, signal.SIGKILL)  # before it is reaped: the id is not reused until then
            code = process.wait()
            name = signal.Signals(-code).name if code < 0 else None
            phases = self._phases[index]
            phases.look()
            unfinished = code == 0 and phases.readable and phases.latest != "done"
            self._exits[index] = replace(
                self._exits[index],
                at=at,
                exit_code=code if code >= 0 else None,
                signal=name,
                out_of_memory=code == -signal.SIGKILL and oom_kills().risen_since(self._oom_kills),
                unfinished_phase=phases.latest if unfinished else None,
                phases=phases.seen,
            )
        if self._exits != before:
            self._report()

    def _stop(self, wakeup: Wakeup) -> None:
        """Ask all ranks to end, and kill those that still run after GRACE_SECONDS."""
        for index, process in enumerate(self._processes):
            if process.returncode is None:
                self._exits[index] = replace(self._exits[index], stopped=True)
                send_group(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while self._alive() and time.monotonic() < deadline:
            wakeup.wait(0.1)
            self._reap()
        for process in self._processes:
            if process.returncode is None:
                send_group(process.pid, signal.SIGKILL)
                process.wait()
        for index, rank_exit in enumerate(self._exits):
            if rank_exit.at is None:
                self._exits[index] = replace(rank_exit, at=time.time(), signal="SIGKILL")
        self._report()

    def _report(self) -> None:
        report = AgentReport(node_rank=self._node_rank, pid=os.getpid(), ranks=tuple(self._exits))
        try:
            json_files.save(filenames.agent_report_path(self._run, self._node_rank), report)
        except UserError as error:  # a full disk must not keep the ranks from being stopped
            with suppress(OSError):
                print(error, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command that `agent_argv` names."""
    parser = argparse.ArgumentParser(prog="llmperf.launching.agent")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--node-rank", type=int, required=True)
    parser.add_argument("--master-addr", required=True)
    parser.add_argument("--master-port", type=int, required=True)
    options = parser.parse_args(arguments)
    adopt_orphans()
    with Wakeup(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as wakeup:
        try:
            plan = json_files.load(options.run_dir / filenames.PLAN, Plan)
        except UserError as error:
            print(error, file=sys.stderr, flush=True)
            return UserError.exit_code
        agent = Agent(options.run_dir, plan, options.node_rank, options.master_addr, options.master_port)
        return agent.run(wakeup)


if __name__ == "__main__":
    sys.exit(main())
