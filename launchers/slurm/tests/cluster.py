"""A real Slurm of two nodes on this machine: each slurmd has a network namespace of its own, joined by a bridge.

`python cluster.py FOLDER` starts one, prints how to reach it, and stops it when its standard input ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

PREFIX = "lpsl"
SUBNET = "10.77.13"
NODES = ("lpsl1", "lpsl2")
CONTROL = "lpslc"
PROGRAMS = ("slurmctld", "slurmd", "munged", "ip", "unshare")
UP_SECONDS = 30.0

CONFIG = """\
ClusterName=lpsl
SlurmctldHost={control}({subnet}.1)
SlurmctldPort=26817
SlurmdPort=26818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=10
OverTimeLimit=0
InactiveLimit=0
MinJobAge={min_job_age}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_interval=2,bf_interval=2,preempt_youngest_first
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
{nodes}
PartitionName=work Nodes=ALL Default=YES MaxTime=30 State=UP
PartitionName=low Nodes=ALL MaxTime=30 State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
PartitionName=lowcancel Nodes=ALL MaxTime=30 State=UP PriorityTier=1 PreemptMode=CANCEL GraceTime=10
PartitionName=high Nodes=ALL MaxTime=30 State=UP PriorityTier=10
"""


def missing() -> str | None:
    """Why no cluster can be started here."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if absent:
        return f"needs {', '.join(absent)}"
    probe = subprocess.run(["unshare", "--net", "--uts", "true"], capture_output=True)
    return None if probe.returncode == 0 else "needs the right to make namespaces"


class Cluster:
    """Two nodes `lpsl1` and `lpsl2`, and the namespace `lpslc` of slurmctld, from which users submit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.env = {"SLURM_CONF": str(folder / "slurm.conf")}

    def start(self, min_job_age: int = 300) -> None:
        """Start the daemons and wait until both nodes are idle."""
        for name in ("state", "log", "munge"):
            (self.folder / name).mkdir(parents=True)
        self._munge()
        self._network()
        cpus = os.cpu_count() or 1
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={node} NodeAddr={SUBNET}.1{number} CPUs={cpus} RealMemory=4000 State=UNKNOWN"
            for number, node in enumerate(NODES, 1)
        )
        config = CONFIG.format(control=CONTROL, subnet=SUBNET, folder=self.folder, nodes=nodes, min_job_age=min_job_age)
        (self.folder / "slurm.conf").write_text(config)
        (self.folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\n"
        )  # not used: spares slurmd the search for it
        self._daemon(CONTROL, "slurmctld", "-D", "-i", "-f", str(self.folder / "slurm.conf"))
        for node in NODES:
            self.start_node(node)
        self.wait_until_idle()

    def start_node(self, node: str) -> None:
        self._daemon(node, "slurmd", "-D", "-f", str(self.folder / "slurm.conf"))

    def wait_until_idle(self) -> None:
        """Wait until both nodes are idle."""
        limit = time.monotonic() + UP_SECONDS
        while (state := self.call("sinfo", "-h", "-p", "work", "-o", "%D %t").strip()) != "2 idle":
            if time.monotonic() > limit:
                raise RuntimeError(f"nodes are not idle after {UP_SECONDS:g} s: {state}")
            time.sleep(0.2)

    def within(self, *argv: str, place: str = CONTROL) -> list[str]:
        """The command that runs another in a namespace of the cluster."""
        return ["ip", "netns", "exec", place, *argv]

    def call(self, *argv: str, seconds: float = 60) -> str:
        """What a command prints in the controller's namespace."""
        ended = subprocess.run(
            self.within(*argv), env={**os.environ, **self.env}, capture_output=True, text=True, timeout=seconds
        )
        return ended.stdout + ended.stderr

    def processes(self, node: str) -> list[int]:
        """Process ids in a node's namespace, its slurmd left out."""
        listed = subprocess.run(["ip", "netns", "pids", node], capture_output=True, text=True).stdout.split()
        return [int(pid) for pid in listed if int(pid) != self._daemons[node].pid]

    def kill_node(self, node: str) -> None:
        """End everything on a node at once, as a power cut does."""
        for pid in [self._daemons[node].pid, *self.processes(node)]:
            subprocess.run(["kill", "-9", str(pid)], capture_output=True)
        self._daemons[node].wait()

    def link(self, node: str, state: str) -> None:
        """Set a node's link `up` or `down`."""
        subprocess.run(["ip", "-n", node, "link", "set", "veth0", state], check=True)

    def stop(self) -> None:
        """End all processes of the cluster and remove its namespaces."""
        for place in (*NODES, CONTROL):
            listed = subprocess.run(["ip", "netns", "pids", place], capture_output=True, text=True).stdout.split()
            for pid in listed:
                subprocess.run(["kill", "-9", pid], capture_output=True)
        for daemon in self._daemons.values():
            if daemon.poll() is None:
                daemon.kill()
            daemon.wait()
        for place in (*NODES, CONTROL):
            subprocess.run(["ip", "netns", "del", place], capture_output=True)
            shutil.rmtree(f"/etc/netns/{place}", ignore_errors=True)

    def _munge(self) -> None:
        munge = self.folder / "munge"
        (munge / "key").write_bytes(os.urandom(1024))
        (munge / "key").chmod(0o400)
        munge.chmod(0o755)  # the socket is for all users
        files = {"key-file": "key", "socket": "sock", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        options = [f"--{option}={munge / name}" for option, name in files.items()]
        self._popen("munged", ["munged", "--foreground", "--force", *options])
        limit = time.monotonic() + UP_SECONDS
        while not (munge / "sock").exists():
            if time.monotonic() > limit:
                raise RuntimeError("munged does not start")
            time.sleep(0.05)

    def _network(self) -> None:
        def ip(*words: str) -> None:
            subprocess.run(["ip", *words], check=True, capture_output=True)

        hosts = "".join(f"{SUBNET}.1{number} {node}\n" for number, node in enumerate(NODES, 1))
        hosts = f"127.0.0.1 localhost\n{SUBNET}.1 {CONTROL}\n{hosts}"
        for place in (CONTROL, *NODES):
            ip("netns", "add", place)
            ip("-n", place, "link", "set", "lo", "up")
            Path(f"/etc/netns/{place}").mkdir(parents=True, exist_ok=True)
            Path(f"/etc/netns/{place}/hosts").write_text(hosts)
        ip("-n", CONTROL, "link", "add", "br0", "type", "bridge")
        ip("-n", CONTROL, "addr", "add", f"{SUBNET}.1/24", "dev", "br0")
        ip("-n", CONTROL, "link", "set", "br0", "up")
        for number, node in enumerate(NODES, 1):
            port = f"{PREFIX}p{number}"
            ip("link", "add", "veth0", "netns", node, "type", "veth", "peer", "name", port, "netns", CONTROL)
            ip("-n", node, "addr", "add", f"{SUBNET}.1{number}/24", "dev", "veth0")
            ip("-n", node, "link", "set", "veth0", "up")
            ip("-n", CONTROL, "link", "set", port, "master", "br0", "up")

    def _daemon(self, place: str, *argv: str) -> None:
        script = 'hostname "$0"; exec "$@"'
        self._popen(place, self.within("unshare", "--uts", "sh", "-c", script, place, *argv, place=place))

    def _popen(self, name: str, argv: list[str]) -> None:
        with (self.folder / "log" / f"{name}.out").open("ab") as log:
            path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
            self._daemons[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.env, "PATH": path}
            )


if __name__ == "__main__":
    cluster = Cluster(Path(sys.argv[1]).absolute())
    try:
        cluster.start()
        print(f"SLURM_CONF={cluster.env['SLURM_CONF']} ip netns exec {CONTROL} sinfo", flush=True)
        sys.stdin.read()
    finally:
        cluster.stop()
