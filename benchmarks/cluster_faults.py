"""Faults of a run on two hosts: how long until it ends or goes on, what it says, and what it leaves behind.

The hosts are namespaces of this machine with an SSH server each (`llmperf_testing.hosts`). Needs root, iproute2 and
OpenSSH.

A run loses no record: all that were written a second before the fault arrive, or stay in the folder on the node that
the run's notes name. A record that was written just before a host or its link goes cannot arrive.

    ./dev python benchmarks/cluster_faults.py
    ./dev python benchmarks/cluster_faults.py --only worker_killed --only host_gone --json
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
from importlib.metadata import distribution
from pathlib import Path

from llmperf_testing import hosts as namespaces
from llmperf_testing import ssh_servers

LIMIT_SECONDS = 60.0
"""In which a run ends or goes on after a fault."""
START_SECONDS = 180.0
SENT_SECONDS = 1.0
"""In which a node sends a record that was written: ten of its looks. What is younger when a host or its link is gone
cannot arrive."""
STEPS_BEFORE = 5
STEPS_AFTER = 5
MODEL = (
    *("model=llama_tiny", "seq_len=32", "global_batch=2", "micro_batch=1", "precision=fp32"),
    *("warmup_steps=2", "nodes=2"),
)
RANK = "llmperf.measuring.worker"
AGENT = "llmperf.launching.agent"
PROGRAM = "llmperf_remote.node"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a fault."""

    fault: str
    expected: str
    """`ends`, `goes on`, `completes` or `refused`: what the run should do."""
    seconds: float | None
    """From the fault until llmperf has ended, or every rank has finished more steps; None if not in time."""
    exit_code: int | None
    message: str
    """Reason why the run ended, in llmperf's words."""
    left_seconds: float | None
    """From the fault until no process of the run is left on any host; None if some are left."""
    left: list[str]
    """Processes that are left."""
    lost_records: int
    """Lines of records that were on a node `SENT_SECONDS` before the fault, have not arrived in the run folder, and are
    not in the folder that `nodes.json` names for what stayed on the node."""

    @property
    def good(self) -> bool:
        """True if everything was as it should be."""
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
        """True if every rank has finished so many steps in time."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if self.steps() >= steps:
                return True
            if self.process is not None and self.process.poll() is not None:
                return False
            time.sleep(0.1)
        return False

    def fault(self) -> None:
        """Note the records that are on the nodes; once they have had the time to be sent, note the time."""
        for node in self.hosts.nodes:
            self.written |= _records_on(node, Path("/tmp"))
        time.sleep(SENT_SECONDS)
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
        """Lines of records that were written, have not arrived, and are not where llmperf says that they stayed."""
        found = {path.name: _lines(path) for path in self.runs.glob("*/records/rank-*.jsonl")}
        for path in self.runs.glob("*/nodes.json"):
            for node, reached in zip(self.hosts.nodes, json.loads(path.read_text()), strict=True):
                if reached["undelivered"] is not None:
                    found |= _records_on(node, Path(reached["undelivered"]))
        return sum(max(0, lines - found.get(name, 0)) for name, lines in self.written.items())

    def message(self) -> str:
        """Reason why the run ended, in llmperf's words."""
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


def _records_on(node: namespaces.Host, folder: Path) -> dict[str, int]:
    """Lines of the records in a folder on a node, by file name; none if the node is gone."""
    root = Path(f"/proc/{node.init}/root")
    return {path.name: _lines(path) for path in (root / folder.relative_to("/")).glob("**/records/rank-*.jsonl")}


def _lines(path: Path, part: bytes = b"") -> int:
    """Whole lines with a part; 0 if the file cannot be read."""
    try:
        return sum(part in line for line in path.read_bytes().split(b"\n")[:-1])
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


CLOCK = Path(__file__).with_name("clock.c")
"""A library whose wall clock is an hour ahead."""


def environment(fault: str) -> dict[str, dict[str, str]]:
    """Variables of the sessions on a node, by node."""
    if fault != "clock_skew":
        return {}
    library = Path(f"/var/tmp/llmperf-clock-{os.getpid()}.so")  # each host has its own /tmp
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, CLOCK], check=True)
    return {"node2": {"LD_PRELOAD": str(library)}}


@dataclass(frozen=True)
class Fault:
    """A fault of a host, its link or its configuration."""

    expected: str
    """`ends` or `goes on` while it trains; `completes` or `refused` where the fault is there before the run."""
    what: str
    act: Callable[[Trial], object]


def disk_full(trial: Trial) -> None:
    full = 'mount -o remount,size="$(df -k --output=used /tmp | tail -n 1 | tr -d " ")k" /tmp'
    trial.node2.run("sh", "-c", full, check=True)


def link_down_5_seconds(trial: Trial) -> None:
    trial.node2.link("down")
    time.sleep(5)
    trial.node2.link("up")


def port_in_use(trial: Trial) -> None:
    trial.framework = "paddle"
    trial.node1.start(sys.executable, "-c", THIEF, log=trial.folder / "thief.txt")


def wrong_key(trial: Trial) -> None:
    trial.options = {
        "identity": str(trial.servers.key("wrong")),
        "options": ["IdentitiesOnly=yes", "IdentityAgent=none", f"UserKnownHostsFile={trial.servers.known_hosts}"],
    }  # type: ignore[dict-item]


def plugin_missing(trial: Trial) -> None:
    metadata = Path(str(distribution("llmperf-pytorch")._path))  # type: ignore[attr-defined]
    trial.node2.run("sh", "-c", 'mkdir -p /tmp/empty && mount --bind /tmp/empty "$0"', metadata, check=True)


FAULTS = {
    "worker_killed": Fault("ends", "kill -9 of a rank", lambda trial: kill(trial.node2.find(RANK))),
    "agent_killed": Fault("ends", "kill -9 of the agent and its guard", lambda trial: kill(trial.node2.find(AGENT))),
    "node_program_killed": Fault("ends", "kill -9 of the node program", lambda trial: kill(trial.node2.find(PROGRAM))),
    "connection_killed": Fault(
        "ends", "kill -9 of the ssh client of a host", lambda trial: kill(trial.hosts.controller.find("-- node2"))
    ),
    "host_gone": Fault("ends", "A host loses its power", lambda trial: trial.node2.lose()),
    "first_host_gone": Fault(
        "ends", "The first host, where the ranks meet, loses its power", lambda trial: trial.node1.lose()
    ),
    "link_down": Fault("ends", "The link of a host goes down for good", lambda trial: trial.node2.link("down")),
    "disk_full": Fault("ends", "The file system of the run folder on a host is full", disk_full),
    "controller_killed": Fault(
        "ends",
        "kill -9 of llmperf on the controller",
        lambda trial: kill(trial.hosts.controller.find("-m llmperf run")),
    ),
    "link_down_5_seconds": Fault("goes on", "The link of a host is down for 5 s", link_down_5_seconds),
    "slow_link": Fault(
        "goes on",
        "A link with 100 ms and 1 % loss in each direction",
        lambda trial: trial.hosts.slow_link(trial.node2, 0.1, 0.01),
    ),
    "clock_skew": Fault("completes", "The clock of a host is an hour ahead", lambda trial: None),
    "port_in_use": Fault("completes", "Another process takes the port at which Paddle's ranks meet", port_in_use),
    "ssh_refused": Fault("refused", "No SSH server on a host", lambda trial: kill(trial.node2.find("[listener]"))),
    "wrong_key": Fault("refused", "A key that no host accepts", wrong_key),
    "unknown_host_key": Fault(
        "refused", "Hosts that are not in known_hosts", lambda trial: trial.servers.known_hosts.write_text("")
    ),
    "plugin_missing": Fault("refused", "A host without the framework plugin", plugin_missing),
}


def attempt(name: str, trial: Trial) -> Outcome:
    """The outcome of a run with a fault; the seconds of one that completes are those of the whole run."""
    fault = FAULTS[name]
    if fault.expected in ("completes", "refused"):
        fault.act(trial)
        trial.fault()
        trial.start(STEPS_BEFORE + STEPS_AFTER)
    else:
        trial.start()
        if not trial.await_steps(STEPS_BEFORE, START_SECONDS):
            raise SystemExit(f"{name}: the run did not start: {trial.error.read_text()}")
        trial.fault()
        fault.act(trial)
    if fault.expected == "goes on":
        on = trial.await_steps(trial.steps() + STEPS_AFTER, LIMIT_SECONDS)
        seconds = time.monotonic() - trial.fault_at if on else None
        trial.interrupt()
        trial.await_end()
    else:
        seconds = trial.await_end(2 * START_SECONDS if fault.expected == "completes" else LIMIT_SECONDS + 30)
    assert trial.process is not None
    return Outcome(
        fault=name,
        expected=fault.expected,
        seconds=seconds,
        exit_code=trial.process.poll(),
        left_seconds=trial.await_clean(),
        message=trial.message(),
        left=trial.left(),
        lost_records=trial.lost(),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(FAULTS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder for the run folders; by default they are deleted")
    options = parser.parse_args()
    reason = namespaces.missing() or ssh_servers.missing()
    if reason is not None:
        parser.error(reason)
    outcomes = []
    if not options.json:
        print("| Fault | Run | Seconds | Nothing left after | Exit | Message |\n|---|---|---|---|---|---|")
    for name in options.only or FAULTS:
        folder = Path(tempfile.mkdtemp(prefix=f"llmperf-{name}-", dir=options.keep))
        trial = Trial(folder, environment(name))
        try:
            outcomes.append(result := attempt(name, trial))
        finally:
            trial.close()
            Path(f"/var/tmp/llmperf-clock-{os.getpid()}.so").unlink(missing_ok=True)
            if options.keep is None:
                shutil.rmtree(folder, ignore_errors=True)
        if not options.json:
            print(row(result, FAULTS[name].what), flush=True)
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
