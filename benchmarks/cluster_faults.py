"""Faults of a run on two hosts: how long until it ends or goes on, what it says, and what it leaves behind.

The hosts are namespaces of this machine with an SSH server each (`llmperf_testing.hosts`). Needs root, iproute2 and
OpenSSH.

    uv run python benchmarks/cluster_faults.py
    uv run python benchmarks/cluster_faults.py --only worker_killed --only host_gone --json
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from llmperf_testing import hosts as namespaces
from llmperf_testing import ssh_servers

LIMIT_SECONDS = 60.0
"""In which a run ends or goes on after a fault."""
START_SECONDS = 180.0
STEPS_BEFORE = 5
STEPS_AFTER = 5
MODEL = (
    "model=llama_tiny",
    "seq_len=32",
    "global_batch=2",
    "micro_batch=1",
    "precision=fp32",
    "warmup_steps=2",
    "nodes=2",
)
RANK = "llmperf.measuring.worker"
AGENT = "llmperf.launching.agent"
PROGRAM = "llmperf.launching.node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a fault."""

    fault: str
    expected: str
    """`ends`, `goes on`, `completes` or `refused`: what the run should do."""
    seconds: float | None
    """From the fault until llmperf has ended, or every rank has finished more steps; None if not in time."""
    exit_code: int | None
    message: str
    """Why the run has ended, in llmperf's words."""
    left_seconds: float | None
    """From the fault until no process of the run is left on any host; None if some are left."""
    left: list[str]
    """Processes that are left."""
    lost_records: int
    """Lines of records that were on a node when the fault came, and are not in the run folder."""

    @property
    def good(self) -> bool:
        """Whether everything was as it should be."""
        in_time = self.seconds is not None and self.seconds <= LIMIT_SECONDS
        clean = self.left_seconds is not None and self.left_seconds <= LIMIT_SECONDS
        if self.expected == "completes":
            return self.exit_code == 0 and self.left_seconds is not None
        names = (
            self.expected == "goes on"
            or self.fault == "controller_killed"
            or re.search(r"node ?[12]|rank [01]", self.message) is not None
        )
        return in_time and clean and names and not self.lost_records


class Trial:
    """Two hosts and a run on them."""

    def __init__(self, folder: Path, environment: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self.folder = folder
        self.hosts = namespaces.Hosts(folder / "hosts", count=2)
        self.servers = ssh_servers.SshServers(self.hosts, environment)
        self.node1, self.node2 = self.hosts.nodes
        self.runs = folder / "runs"
        self.error = folder / "error.txt"
        self.process: subprocess.Popen[bytes] | None = None
        self.options = {"config": str(self.servers.config), "env": {"OMP_NUM_THREADS": "1"}}
        self.framework = "pytorch"
        self.fault_at = 0.0
        self.written: dict[str, int] = {}

    def start(self, steps: int = 300_000) -> None:
        """Start the run."""
        table = "".join(f"{key} = {inline(value)}\n" for key, value in self.options.items())
        (self.folder / "llmperf.toml").write_text(f"[launchers.ssh]\n{table}")
        words = ["run", "default", "--framework", self.framework, "--vendor", "cpu", "--launcher", "ssh"]
        words += ["--hosts", "node1,node2"]
        words += ["--devices", "1", "--stall-timeout", "20", "--out", str(self.runs)]
        words += [word for setting in (*MODEL, f"steps={steps}") for word in ("--set", setting)]
        command = [sys.executable, "-P", "-m", "llmperf", *words]
        self.process = self.hosts.controller.start(
            *command, log=self.error, cwd=self.folder, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )

    def steps(self) -> int:
        """Steps that every rank has finished, by the records in the run folder."""
        counts = [_lines(path, b'"step"') for path in self.runs.glob("*/records/rank-*.jsonl")]
        return min(counts) if len(counts) == 2 else 0

    def await_steps(self, steps: int, limit: float) -> bool:
        """Whether every rank has finished so many steps in time."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if self.steps() >= steps:
                return True
            if self.process is not None and self.process.poll() is not None:
                return False
            time.sleep(0.1)
        return False

    def fault(self) -> None:
        """Note the time, and the records that are on the nodes."""
        for node in self.hosts.nodes:
            for path in Path(f"/proc/{node.init}/root/tmp").glob("**/records/rank-*.jsonl"):
                self.written[path.name] = path.read_bytes().count(b"\n")
        self.fault_at = time.monotonic()

    def await_end(self, limit: float = LIMIT_SECONDS + 30) -> float | None:
        """Seconds from the fault until llmperf has ended; None if it has not in time."""
        assert self.process is not None
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(limit)
            return time.monotonic() - self.fault_at
        return None

    def left(self) -> list[str]:
        """Processes of the run on the nodes, without SSH servers: they end when TCP gives a connection up."""
        return [f"{node.name}: {line}" for node in self.hosts.nodes for line in node.processes().values()
                if not line.startswith("sshd: ") and THIEF[:20] not in line]  # fmt: skip

    def await_clean(self) -> float | None:
        """Seconds from the fault until no process of the run is left; None if some are left."""
        while (left := self.left()) and time.monotonic() < self.fault_at + LIMIT_SECONDS + 30:
            time.sleep(0.1)
        return None if left else time.monotonic() - self.fault_at

    def lost(self) -> int:
        """Lines of records that were written and have not arrived."""
        arrived = {path.name: path.read_bytes().count(b"\n") for path in self.runs.glob("*/records/rank-*.jsonl")}
        return sum(max(0, lines - arrived.get(name, 0)) for name, lines in self.written.items())

    def message(self) -> str:
        """Why the run has ended, in llmperf's words."""
        lines = [line.strip() for line in re.split(r"[\r\n]", self.error.read_text(errors="replace")) if line.strip()]
        reasons = [line for line in lines if line.startswith(("status ", "llmperf: "))]
        offsets = [node["clock_offset_seconds"] for path in self.runs.glob("*/nodes.json")
                   for node in json.loads(path.read_text()) if abs(node["clock_offset_seconds"] or 0) > 1]  # fmt: skip
        if offsets:
            return f"clock of a node: {offsets[0]:+.3f} s"
        return " ".join((reasons or lines or [""])[-1].removeprefix("status ").removeprefix("llmperf: ").split())

    def interrupt(self) -> None:
        """End the run as Ctrl-C does."""
        for pid in self.hosts.controller.find("-m llmperf run"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)

    def close(self) -> None:
        """End the hosts with everything on them."""
        self.hosts.close()


def _lines(path: Path, part: bytes) -> int:
    try:
        return sum(part in line for line in path.read_bytes().splitlines())
    except OSError:
        return 0


def inline(value: object) -> str:
    """A value in TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {json.dumps(text)}" for key, text in value.items()) + "}"
    return json.dumps(value)


def kill(pids: list[int]) -> None:
    """Kill processes that must exist."""
    assert pids, "the process to kill was not found"
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def worker_killed(trial: Trial) -> None:
    """kill -9 of a rank."""
    kill(trial.node2.find(RANK))


def agent_killed(trial: Trial) -> None:
    """kill -9 of the agent and its guard."""
    kill(trial.node2.find(AGENT))


def node_program_killed(trial: Trial) -> None:
    """kill -9 of the node program."""
    kill(trial.node2.find(PROGRAM))


def connection_killed(trial: Trial) -> None:
    """kill -9 of the ssh client of a host."""
    kill([pid for pid in trial.hosts.controller.find("-- node2")])


def host_gone(trial: Trial) -> None:
    """A host loses its power."""
    trial.node2.lose()


def first_host_gone(trial: Trial) -> None:
    """The first host, where the ranks meet, loses its power."""
    trial.node1.lose()


def link_down(trial: Trial) -> None:
    """The link of a host goes down for good."""
    trial.node2.link("down")


def disk_full(trial: Trial) -> None:
    """The file system of the run folder on a host is full."""
    full = 'mount -o remount,size="$(df -k --output=used /tmp | tail -n 1 | tr -d " ")k" /tmp'
    trial.node2.run("sh", "-c", full, check=True)


def controller_killed(trial: Trial) -> None:
    """kill -9 of llmperf on the controller."""
    kill(trial.hosts.controller.find("-m llmperf run"))


ENDING: tuple[Callable[[Trial], None], ...] = (
    worker_killed, agent_killed, node_program_killed, connection_killed, host_gone, first_host_gone, link_down,
    disk_full, controller_killed,
)  # fmt: skip
"""After these the run ends."""


def link_down_5_seconds(trial: Trial) -> None:
    """The link of a host is down for 5 s."""
    trial.node2.link("down")
    time.sleep(5)
    trial.node2.link("up")


def slow_link(trial: Trial) -> None:
    """A link with 100 ms and 1 % loss in each direction."""
    trial.hosts.slow_link(trial.node2, 0.1, 0.01)


GOING_ON: tuple[Callable[[Trial], None], ...] = (link_down_5_seconds, slow_link)
"""After these the run goes on."""


def clock_skew(trial: Trial) -> None:
    """The clock of a host is an hour ahead."""


def port_in_use(trial: Trial) -> None:
    """Another process takes the port at which Paddle's ranks meet."""
    trial.framework = "paddle"
    trial.node1.start(sys.executable, "-c", THIEF, log=trial.folder / "thief.txt")


THIEF = f"""
import pathlib, re, socket, time
while True:
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            port = re.search(rb"MASTER_PORT=(\\d+)", path.read_bytes())
            if port and b"{RANK}" in (path.parent / "cmdline").read_bytes():
                thief = socket.create_server(("0.0.0.0", int(port[1])))
                print("took", port[1], flush=True)
                time.sleep(1000)
        except OSError:
            pass
    time.sleep(0.005)
"""
"""Listens on the port that the first rank is told, before the rank does."""
COMPLETE: tuple[Callable[[Trial], None], ...] = (clock_skew, port_in_use)
"""With these a run is as good as without."""
CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *value) {
    int failed = syscall(SYS_clock_gettime, clock, value);
    if (!failed && clock == CLOCK_REALTIME) value->tv_sec += 3600;
    return failed;
}
int gettimeofday(struct timeval *restrict value, void *restrict zone) {
    int failed = syscall(SYS_gettimeofday, value, zone);
    if (!failed) value->tv_sec += 3600;
    return failed;
}
time_t time(time_t *value) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (value) *value = now.tv_sec;
    return now.tv_sec;
}
"""
"""A library whose wall clock is an hour ahead. That of Debian's libfaketime 0.9.10 makes Python's time.sleep fail."""


def environment(fault: str, folder: Path) -> dict[str, dict[str, str]]:
    """Variables of the sessions on a node, by node."""
    if fault != "clock_skew":
        return {}
    source, library = folder / "clock.c", Path(f"/var/tmp/llmperf-clock-{os.getpid()}.so")  # each host has its own /tmp
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
    return {"node2": {"LD_PRELOAD": str(library)}}


def ssh_refused(trial: Trial) -> None:
    """No SSH server on a host."""
    kill(trial.node2.find("[listener]"))


def wrong_key(trial: Trial) -> None:
    """A key that no host accepts."""
    trial.options = {
        "identity": str(trial.servers.key("wrong")),
        "options": ["IdentitiesOnly=yes", "IdentityAgent=none", f"UserKnownHostsFile={trial.servers.known_hosts}"],
    }  # type: ignore[dict-item]


def unknown_host_key(trial: Trial) -> None:
    """Hosts that are not in known_hosts."""
    trial.servers.known_hosts.write_text("")


def plugin_missing(trial: Trial) -> None:
    """A host without the framework plugin."""
    from importlib.metadata import distribution

    for name in ("llmperf-pytorch",):
        metadata = Path(str(distribution(name)._path))  # type: ignore[attr-defined]
        trial.node2.run("sh", "-c", 'mkdir -p /tmp/empty && mount --bind /tmp/empty "$0"', metadata, check=True)


REFUSED: tuple[Callable[[Trial], None], ...] = (ssh_refused, wrong_key, unknown_host_key, plugin_missing)
"""With these a run does not start."""


def try_ending(fault: Callable[[Trial], None], trial: Trial) -> Outcome:
    """A fault in the middle of a run."""
    trial.start()
    if not trial.await_steps(STEPS_BEFORE, START_SECONDS):
        raise SystemExit(f"{fault.__name__}: the run did not start: {trial.error.read_text()}")
    trial.fault()
    fault(trial)
    seconds = trial.await_end()
    return outcome(fault, "ends", trial, seconds)


def try_going_on(fault: Callable[[Trial], None], trial: Trial) -> Outcome:
    """A disturbance in the middle of a run."""
    trial.start()
    if not trial.await_steps(STEPS_BEFORE, START_SECONDS):
        raise SystemExit(f"{fault.__name__}: the run did not start: {trial.error.read_text()}")
    trial.fault()
    fault(trial)
    on = trial.await_steps(trial.steps() + STEPS_AFTER, LIMIT_SECONDS)
    seconds = time.monotonic() - trial.fault_at if on else None
    trial.interrupt()
    trial.await_end()
    return outcome(fault, "goes on", trial, seconds)


def try_complete(fault: Callable[[Trial], None], trial: Trial) -> Outcome:
    """A disturbance from the start of a run to its end; the seconds are those of the whole run."""
    fault(trial)
    trial.fault()
    trial.start(steps=STEPS_BEFORE + STEPS_AFTER)
    return outcome(fault, "completes", trial, trial.await_end(2 * START_SECONDS))


def try_refused(fault: Callable[[Trial], None], trial: Trial) -> Outcome:
    """A fault that is there before the run."""
    fault(trial)
    trial.fault()
    trial.start()
    return outcome(fault, "refused", trial, trial.await_end())


def outcome(fault: Callable[[Trial], None], expected: str, trial: Trial, seconds: float | None) -> Outcome:
    """The outcome of a trial whose run has ended."""
    assert trial.process is not None
    return Outcome(
        fault=fault.__name__,
        expected=expected,
        seconds=seconds,
        exit_code=trial.process.poll(),
        left_seconds=trial.await_clean(),
        message=trial.message(),
        left=trial.left(),
        lost_records=trial.lost(),
    )


TRIALS = {
    fault.__name__: (attempt, fault)
    for attempt, faults in (
        (try_ending, ENDING),
        (try_going_on, GOING_ON),
        (try_complete, COMPLETE),
        (try_refused, REFUSED),
    )
    for fault in faults
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(TRIALS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder for the run folders; by default they are deleted")
    options = parser.parse_args()
    reason = namespaces.missing() or ssh_servers.missing()
    if reason is not None:
        parser.error(reason)
    outcomes = []
    if not options.json:
        print("| Fault | Run | Seconds | Nothing left after | Exit | Message |\n|---|---|---|---|---|---|")
    for name in options.only or TRIALS:
        attempt, fault = TRIALS[name]
        folder = Path(tempfile.mkdtemp(prefix=f"llmperf-{name}-", dir=options.keep))
        trial = Trial(folder, environment(name, folder))
        try:
            outcomes.append(result := attempt(fault, trial))
        finally:
            trial.close()
            Path(f"/var/tmp/llmperf-clock-{os.getpid()}.so").unlink(missing_ok=True)
            if options.keep is None:
                shutil.rmtree(folder, ignore_errors=True)
        if not options.json:
            print(row(result, (fault.__doc__ or "").rstrip(".")), flush=True)
    if options.json:
        print(json.dumps([{**asdict(result), "good": result.good} for result in outcomes], indent=2))
    return 0 if all(result.good for result in outcomes) else 1


def row(result: Outcome, what: str) -> str:
    """A row of the table."""
    seconds, left = ("-" if value is None else f"{value:.1f}" for value in (result.seconds, result.left_seconds))
    lost = f" ({result.lost_records} records lost)" if result.lost_records else ""
    lost += f" (left: {'; '.join(line[:100] for line in result.left)})" if result.left else ""
    message = "" if result.expected == "goes on" else result.message
    mark = "" if result.good else "**wrong** "
    return f"| {what} | {mark}{result.expected} | {seconds} | {left} | {result.exit_code} | {message}{lost} |"


if __name__ == "__main__":
    sys.exit(main())
