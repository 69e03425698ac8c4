"""The part of a run that one machine does: the description of the host, readings of the devices, the agent."""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from llmperf.errors import LlmperfError, UserError
from llmperf.files import json_files
from llmperf.files.text import printable, without_secrets
from llmperf.launching.agent import agent_command, of_node
from llmperf.measuring.processes import (
    TAG,
    adopt_orphans,
    end_descendants,
    end_with_parent,
    send,
    send_group,
    sweep,
    ticks_now,
)
from llmperf.measuring.sampler import device_sampler, used_devices
from llmperf.measuring.worker import plugins_of
from llmperf.planning.vendors import asked
from llmperf.plugins.discovery import find
from llmperf.plugins.facts import joined_facts
from llmperf.plugins.loading import Plugins, load_for
from llmperf.runfolder import filenames
from llmperf.runfolder.create import create_run_folder, load_plan
from llmperf.runfolder.endings import Host, read_reports
from llmperf.runfolder.readings import busy_text
from llmperf.types.devices import Facts
from llmperf.types.hosts import LoadBefore
from llmperf.types.plan import Plan

MAX_VALUE = 200
"""Longest value of a variable that is recorded."""
MAX_LOOK_SECONDS = 10.0
"""Longest time over which the controller may have the load of a node averaged."""
GRACE_SECONDS = 4.0
"""Time between asking the agent to end, which then stops its ranks, and killing it."""
DUMP_SECONDS = 3.0
"""Time for the ranks to write their stacks; on a busy machine a healthy one may take a second."""
MAX_DUMP_BYTES = 256 * 1024


class RunHere:
    """The part of a run on this machine. Its agent ends when this process does.

    Implements `llmperf.types.Agents` for a run on this machine, where the agent writes into the controller's folder.
    """

    notes: tuple[str, ...] = ()

    def __init__(
        self, run: Path, plan: Plan, plugins: Plugins, tag: str, sample_seconds: float, node: int | None = None
    ) -> None:
        """`tag` marks all processes of the run here; `node` is the rank of a node, None for a run on this machine."""
        self.folder, self.plan, self._plugins, self._tag = run, plan, plugins, tag
        self._rank = node or 0
        self._files, self._driver = (run / filenames.MEMORY, run / filenames.MACHINE), None
        if node is not None:
            self._files = (filenames.memory_path(run, node), filenames.host_path(run, node))
            with suppress(LlmperfError):  # the plan has the driver of this machine
                self._driver = asked(find("vendor", plan.vendor), plugins).driver
        devices, on_cpu = used_devices(plan), plan.probe.on_cpu
        self._sampler = device_sampler(self._files[0], plugins, devices, sample_seconds, self._rank, on_cpu)
        self._agent: subprocess.Popen[bytes] | None = None
        self._began = 0
        self._place = "" if node is not None else f"launcher {plan.launcher!r}: "

    def look(self) -> str | None:
        """Write the description of the host, and return what disturbs the run, in one line."""
        load, plan = self._sampler.look(), self.plan
        variables = {**plan.nodes[self._rank].env, **of_node(plan.env, plan, self._rank)}
        host = this_host(variables, joined_facts(self._plugins))
        json_files.save(self._files[1], replace(host, driver=self._driver, load=load))
        busy = busy_text(load)
        return None if busy is None else f"{busy}; the run will be disturbed"

    def meet(
        self, address: str, env: Mapping[str, str], port: int | None = None, descriptors: tuple[int, ...] = ()
    ) -> None:
        """Have the ranks of the next start meet at `address` and `port`, a free one by default."""
        self._address, self._env, self._descriptors = address, env, descriptors
        self.port = free_port() if port is None else port

    def start(self, interrupted: Callable[[float], bool] | None = None) -> None:
        """Start the agent, and the readings with the first one."""
        argv = agent_command(self.folder, self.plan, self._rank, self._address, self.port)
        variables = {**of_node(self.plan.env, self.plan, self._rank), **self._env, TAG: self._tag}
        first = self._agent is None
        self._began = self._began or ticks_now()
        try:
            with filenames.agent_log_path(self.folder, self._rank).open("ab") as output:
                self._agent = subprocess.Popen(
                    argv,
                    env={**os.environ, **variables},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=self._descriptors,
                    preexec_fn=end_with_parent(signal.SIGTERM),
                )
        except OSError as error:
            raise UserError(f"{self._place}cannot start {argv[0]}: {error.strerror or error}") from None
        adopt_orphans()  # of an agent that is killed
        if first:
            self._sampler.start()

    def codes(self) -> tuple[int | None, ...]:
        """The agent's exit code, below 0 for signals and None while it runs; empty before it was started."""
        return () if self._agent is None else (self._agent.poll(),)

    def lost(self) -> None:
        """None: this machine is here."""

    def stop(self, hurry: Callable[[], bool] = lambda: False) -> tuple[int | None, ...]:
        """End the agent and everything below it, by SIGTERM, then by SIGKILL; its exit code, None if it was killed."""
        if self._agent is None:
            return ()
        pid, session = self._agent.pid, os.getsid(0)
        if self._agent.poll() is None:
            send(pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while (code := self._agent.poll()) is None and not hurry() and time.monotonic() < deadline:
            time.sleep(0.02)
        if code is None:
            send_group(pid, signal.SIGKILL)
        self._agent.wait()
        if self._began:  # those below an agent that was killed, whose parent is now this process
            end_descendants(lambda process: process.start >= self._began and process.session != session)
        adopt_orphans(False)  # the process may go on with other work
        sweep(self._tag)
        return (code,)

    def stacks(self) -> dict[int, str]:
        """Stacks that running ranks write to their logs when asked; empty text if one does not answer."""
        running = [process for report in read_reports(self.folder) for process in report.ranks if process.at is None]
        logs = {process.rank: filenames.log_path(self.folder, process.rank) for process in running}
        before = {rank: path.stat().st_size if path.exists() else 0 for rank, path in logs.items()}
        for process in running:
            send(process.pid, signal.SIGUSR1)
        dumps = dict.fromkeys(logs, "")
        deadline = time.monotonic() + DUMP_SECONDS
        while time.monotonic() < deadline:
            time.sleep(0.2)  # also between the first line of a dump and its last
            earlier = dict(dumps)
            for rank, path in logs.items():
                with suppress(OSError), path.open("rb") as file:
                    file.seek(before[rank])
                    dumps[rank] = file.read(MAX_DUMP_BYTES).decode(errors="replace")
            if dumps == earlier and all(dumps.values()):
                break
        return dumps

    def close(self) -> str | None:
        """End the readings; returns why the devices were not read to the end, None if they were."""
        self._sampler.stop()
        return self._sampler.problem


def free_port() -> int:
    """A port of this host on which no process listens now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def this_host(planned: Mapping[str, str], facts: Facts) -> Host:
    """The description of this host: system, first processor, memory, and variables without those of secret names.

    Variables of plugins (`planned`) are recorded under any name, inherited ones only if the facts name them.
    """
    names, prefixes = facts.environment_names, facts.environment_prefixes
    inherited = {name: value for name, value in os.environ.items() if name in names or name.startswith(prefixes)}
    environment = without_secrets({**inherited, **planned})
    system, cpu, memory = platform.system(), None, None
    with suppress(OSError):  # such as `Debian GNU/Linux 12 (bookworm)`
        system = platform.freedesktop_os_release().get("PRETTY_NAME", system)
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name") and ":" in line)
        cpu = next(models, None)
    with suppress(ValueError, OSError):
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Host(
        os=system,
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        cpu=cpu or platform.processor() or None,
        memory_bytes=memory,
        environment={name: printable(environment[name], "?")[:MAX_VALUE] for name in sorted(environment)},
        notable_packages=facts.packages,
    )


def node_run(plan: bytes, folder: Path, node: int, tag: str, sample_seconds: float) -> RunHere:
    """The part of one node, in a run folder that is made here; `plan` is the text of `plan.json`."""
    given = json_files.decode(plan, Plan, "plan.json")
    plugins = plugins_of(given)
    create_run_folder(folder, given)
    return RunHere(folder, load_plan(folder), plugins, tag, sample_seconds, node)


def load_here(vendor: str, devices: tuple[int, ...], on_cpu: bool, seconds: float) -> LoadBefore:
    """The load of this machine and of these devices over so many seconds; `on_cpu`: they are the host's cores."""
    sampler = device_sampler(Path(os.devnull), load_for(vendor, None), devices, on_cpu=on_cpu)
    return sampler.look(min(seconds, MAX_LOOK_SECONDS))
