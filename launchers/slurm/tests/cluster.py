"""A real Slurm of two nodes on this machine: each slurmd has a network namespace of its own, joined by a bridge."""

import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

SUBNET = "10.77.13"
NODES = ("node1", "node2")
CONTROL = "login"
PROGRAMS = ("slurmctld", "slurmd", "munged", "ip", "unshare")
UP_SECONDS = 120.0
NULL_DEVICE = os.makedev(1, 3)
"""In place of a GPU's device file."""

CONFIG = Path(__file__).with_name("slurm.conf").read_text()


def missing():
    """Why no cluster can be started here."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if absent:
        return f"needs {', '.join(absent)}"
    space = f"lpsl{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", space], capture_output=True)
    run = subprocess.run(["ip", "netns", "exec", space, "unshare", "--uts", "true"], capture_output=True)
    subprocess.run(["ip", "netns", "del", space], capture_output=True)
    if made.returncode or run.returncode:
        return "needs the right to make namespaces"
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.mknod(f"{folder}/device", 0o600 | stat.S_IFCHR, NULL_DEVICE)
        except OSError:
            return "needs the right to make device files"
    return None


class Cluster:
    """Nodes `node1` and `node2`, and `login`, where slurmctld runs and users submit."""

    def __init__(self, folder):
        self.folder = folder
        self._prefix = f"lpsl{os.getpid()}-"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.env = {"SLURM_CONF": str(folder / "slurm.conf")}

    def start(self, min_job_age=300):
        """Start the daemons and wait until both nodes are idle."""
        for name in ("state", "log", "munge"):
            (self.folder / name).mkdir(parents=True)
        self._munge()
        self._network()
        cpus = os.cpu_count() or 1
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={node} NodeAddr={SUBNET}.1{number} CPUs={cpus} RealMemory=4000 Gres=gpu:2"
            for number, node in enumerate(NODES, 1)
        )
        config = CONFIG.format(control=CONTROL, subnet=SUBNET, folder=self.folder, nodes=nodes, min_job_age=min_job_age)
        (self.folder / "slurm.conf").write_text(config)
        (self.folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\n"
        )  # not used: spares slurmd the search for it
        for device in range(2):
            os.mknod(self.folder / f"gpu{device}", 0o600 | stat.S_IFCHR, NULL_DEVICE)
        (self.folder / "gres.conf").write_text(f"NodeName={','.join(NODES)} Name=gpu File={self.folder}/gpu[0-1]\n")
        self._daemon(CONTROL, "slurmctld", "-D", "-i", "-f", str(self.folder / "slurm.conf"))
        for node in NODES:
            self.start_node(node)
        self.wait_until_idle()

    def start_node(self, node):
        self._daemon(node, "slurmd", "-D", "-f", str(self.folder / "slurm.conf"))

    def wait_until_idle(self):
        """Wait until both nodes are idle."""
        limit = time.monotonic() + UP_SECONDS
        while (state := self.call("sinfo", "-h", "-p", "work", "-o", "%D %t").strip()) != "2 idle":
            if time.monotonic() > limit:
                raise RuntimeError(f"nodes are not idle after {UP_SECONDS:g} s: {state}")
            time.sleep(0.2)

    def reset(self):
        """Cancel all jobs and bring all nodes back."""
        for node in NODES:
            self.link(node, "up")
            if self._daemons[node].poll() is not None:
                self.start_node(node)
        self.call("scancel", "-u", "root")
        self.call("scontrol", "update", f"NodeName={','.join(NODES)}", "State=RESUME")
        self.wait_until_idle()

    def namespace(self, place):
        """The name of the network namespace of a node or of `login`."""
        return self._prefix + place

    def within(self, *argv, place=CONTROL):
        """The command that runs another in a namespace of the cluster."""
        return ["ip", "netns", "exec", self.namespace(place), *argv]

    def run(self, *argv, seconds=120):
        """Run a command on the login node."""
        return subprocess.run(
            self.within(*argv), env={**os.environ, **self.env}, capture_output=True, text=True, timeout=seconds
        )

    def call(self, *argv):
        """What a command prints on the login node."""
        return self.run(*argv).stdout

    def processes(self, place):
        """Process ids on a node, its slurmd among them."""
        listed = subprocess.run(["ip", "netns", "pids", self.namespace(place)], capture_output=True, text=True)
        return [int(pid) for pid in listed.stdout.split()]

    def command_lines(self, place):
        """Command lines of the processes on a node."""
        lines = []
        for pid in self.processes(place):
            with suppress(OSError):
                lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return lines

    def kill_node(self, node):
        """End everything on a node at once, as a power cut does."""
        for pid in self.processes(node):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._daemons[node].wait()

    def link(self, node, state):
        """Set a node's link `up` or `down`."""
        subprocess.run(["ip", "-n", self.namespace(node), "link", "set", "veth0", state], check=True)

    def stop(self):
        """End all processes of the cluster and remove its namespaces."""
        for place in (*NODES, CONTROL):
            listed = subprocess.run(
                ["ip", "netns", "pids", self.namespace(place)], capture_output=True, text=True
            ).stdout.split()
            for pid in listed:
                subprocess.run(["kill", "-9", pid], capture_output=True)
        for daemon in self._daemons.values():
            daemon.kill()
            daemon.wait()
        for place in (*NODES, CONTROL):
            subprocess.run(["ip", "netns", "del", self.namespace(place)], capture_output=True)
            shutil.rmtree(f"/etc/netns/{self.namespace(place)}", ignore_errors=True)

    def _munge(self):
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

    def _network(self):
        def ip(*words):
            subprocess.run(["ip", *words], check=True, capture_output=True)

        hosts = "".join(f"{SUBNET}.1{number} {node}\n" for number, node in enumerate(NODES, 1))
        hosts = f"127.0.0.1 localhost\n{SUBNET}.1 {CONTROL}\n{hosts}"
        for place in (CONTROL, *NODES):
            space = self.namespace(place)
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
            Path(f"/etc/netns/{space}").mkdir(parents=True)
            Path(f"/etc/netns/{space}/hosts").write_text(hosts)
        control = self.namespace(CONTROL)
        ip("-n", control, "link", "add", "br0", "type", "bridge")
        ip("-n", control, "addr", "add", f"{SUBNET}.1/24", "dev", "br0")
        ip("-n", control, "link", "set", "br0", "up")
        for number, node in enumerate(NODES, 1):
            space, port = self.namespace(node), f"port{number}"
            ip("link", "add", "veth0", "netns", space, "type", "veth", "peer", "name", port, "netns", control)
            ip("-n", space, "addr", "add", f"{SUBNET}.1{number}/24", "dev", "veth0")
            ip("-n", space, "link", "set", "veth0", "up")
            ip("-n", control, "link", "set", port, "master", "br0", "up")

    def _daemon(self, place, *argv):
        script = 'hostname "$0"; exec "$@"'
        self._popen(place, self.within("unshare", "--uts", "sh", "-c", script, place, *argv, place=place))

    def _popen(self, name, argv):
        with (self.folder / "log" / f"{name}.out").open("ab") as log:
            path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
            self._daemons[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.env, "PATH": path}
            )
