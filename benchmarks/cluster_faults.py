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
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import distribution
from pathlib import Path

import cluster_trial
from cluster_trial import AGENT, PROGRAM, RANK, START_SECONDS, STEPS_BEFORE, Outcome, Trial, kill
from llmperf_testing import hosts as namespaces
from llmperf_testing import ssh_servers

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
    trial.node1.start(sys.executable, "-c", cluster_trial.THIEF, log=trial.folder / "thief.txt")


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
        trial.start(STEPS_BEFORE + cluster_trial.STEPS_AFTER)
    else:
        trial.start()
        if not trial.await_steps(STEPS_BEFORE, START_SECONDS):
            raise SystemExit(f"{name}: the run did not start: {trial.error.read_text()}")
        trial.fault()
        fault.act(trial)
    if fault.expected == "goes on":
        on = trial.await_steps(trial.steps() + cluster_trial.STEPS_AFTER, cluster_trial.LIMIT_SECONDS)
        seconds = time.monotonic() - trial.fault_at if on else None
        trial.interrupt()
        trial.await_end()
    else:
        seconds = trial.await_end(
            2 * START_SECONDS if fault.expected == "completes" else cluster_trial.LIMIT_SECONDS + 30
        )
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
