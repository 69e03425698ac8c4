"""Several hosts on one machine, for tests of launchers: namespaces of Linux, joined by a bridge. Needs root.

Each host has its own network, processes, host name and `/etc/hosts`, and each node a `/tmp`. Other files are shared:

    with Hosts(folder, count=2) as hosts:
        hosts.controller.run("ping", "-c1", "node1")
        hosts.nodes[0].start("sshd", "-D")
        hosts.nodes[1].lose()

Nothing has a name outside the namespaces, so that several sets of hosts can exist at the same time, and everything ends
with the process that made them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

NETWORK = "10.77.0"
TOOLS = ("unshare", "nsenter", "setpriv", "ip", "mount")
START_SECONDS = 60.0
TMP_BYTES = 2 * 2**30
INIT = Path(__file__).with_name("host_init.sh").read_text()
"""The first process of a host, which reaps the others. $4 is a folder in /tmp that the host has too."""


def missing() -> str | None:
    """Reason why hosts cannot be made on this machine, in one line; None if they can."""
    if os.name != "posix" or os.geteuid() != 0:
        return "needs root, for namespaces of Linux"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"needs {', '.join(absent)} (util-linux and iproute2)"
    trial = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "ip", "link", "add", "br0", "type", "bridge"]
    done = subprocess.run(trial, capture_output=True, text=True)
    return None if done.returncode == 0 else f"needs namespaces and bridges: {done.stderr.strip()[-200:]}"


class Host:
    """A host with its first process."""

    def __init__(self, name: str, address: str, hosts_file: Path, tmp_bytes: int) -> None:
        self.name = name
        """Also its host name, which the other hosts know."""
        self.address = address
        """Its address on the interface `eth0`."""
        spaces = ("--net", "--mount", "--uts", "--pid", "--mount-proc", "--fork", "--kill-child=KILL")
        argv = ["setpriv", "--pdeathsig", "KILL", "unshare", *spaces, "sh", "-c", INIT, "sh"]
        parts = Path(sys.prefix).parts
        own_folder = parts[2] if parts[:2] == ("/", "tmp") and len(parts) > 2 else ""
        self._unshare = subprocess.Popen(
            [*argv, name, str(hosts_file), str(tmp_bytes), own_folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._unshare.stdout is not None
        assert self._unshare.stderr is not None
        if self._unshare.stdout.readline().strip() != "ready":
            raise RuntimeError(f"host {name}: {self._unshare.stderr.read()[-500:]}")
        self.init = _only_child(self._unshare.pid)
        """Its first process, by the id outside the host."""
        self._space = os.readlink(f"/proc/{self.init}/ns/pid")

    def argv(self, *words: str | Path, cwd: Path | None = None) -> list[str]:
        """The argv that runs a command in the host, in `/` or the given folder."""
        enter = ["nsenter", "-t", str(self.init), "--net", "--mount", "--uts", "--pid", "--"]
        return [*enter, "sh", "-c", 'cd "$0" && exec "$@"', str(cwd or "/"), *map(str, words)]

    def run(
        self,
        *words: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 120.0,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the host until it ends."""
        return subprocess.run(
            self.argv(*words, cwd=cwd), env=env, timeout=timeout, check=check, capture_output=True, text=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def start(
        self, *words: str | Path, log: Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command in the host, which ends with it."""
        with log.open("ab") as output:
            return subprocess.Popen(
                self.argv(*words, cwd=cwd), env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def processes(self) -> dict[int, str]:
        """The command lines of its processes but the first, by their ids outside the host."""
        lines = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) == self.init:
                continue
            with suppress(OSError):
                if os.readlink(folder / "ns" / "pid") == self._space:
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    if line and line != "sleep 1000":
                        lines[int(folder.name)] = line
        return lines

    def find(self, part: str) -> list[int]:
        """The processes whose command line contains `part`, oldest first."""
        return sorted(pid for pid, line in self.processes().items() if part in line)

    def link(self, state: str) -> None:
        """Set the link to the other hosts `up` or `down`."""
        self._ip("link", "set", "eth0", state)

    def lose(self) -> None:
        """End the host as if its power had failed: its link goes down without a word, and its processes are killed."""
        with suppress(subprocess.CalledProcessError):
            self.link("down")
        with suppress(ProcessLookupError):
            os.kill(self.init, signal.SIGKILL)
        self._unshare.communicate()

    def _ip(self, *words: str) -> None:
        self._net("ip", *words)

    def _net(self, *words: str) -> None:
        subprocess.run(["nsenter", "-t", str(self.init), "--net", "--", *words], check=True, capture_output=True)


class Hosts:
    """A controller and some nodes, `node1` and so on, on one network."""

    def __init__(self, folder: Path, count: int, tmp_bytes: int = TMP_BYTES, own_names_are_local: bool = False) -> None:
        """`folder` is for files of the hosts. `own_names_are_local`: each has itself at 127.0.1.1, as on Debian."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._made: list[Host] = []
        names = {"controller": f"{NETWORK}.1"}
        names |= {f"node{number}": f"{NETWORK}.{10 + number}" for number in range(1, count + 1)}
        try:
            for name, address in names.items():
                file = folder / f"{name}.hosts"
                others = {**names, name: "127.0.1.1"} if own_names_are_local else names
                file.write_text("127.0.0.1 localhost\n" + "".join(f"{at} {host}\n" for host, at in others.items()))
                self._made.append(Host(name, address, file, tmp_bytes if self._made else 0))
            controller = self.controller
            controller._ip("link", "add", "eth0", "type", "bridge")
            controller._ip("addr", "add", f"{controller.address}/24", "dev", "eth0")
            controller.link("up")
            for number, node in enumerate(self.nodes, start=1):
                port = f"port{number}"
                controller._ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(node.init))
                controller._ip("link", "set", port, "master", "eth0", "up")
                node._ip("addr", "add", f"{node.address}/24", "dev", "eth0")
                node.link("up")
        except BaseException:
            self.close()
            raise

    @property
    def controller(self) -> Host:
        """The host from which runs are started."""
        return self._made[0]

    @property
    def nodes(self) -> tuple[Host, ...]:
        """The other hosts."""
        return tuple(self._made[1:])

    def slow_link(self, node: Host, delay_seconds: float, loss: float) -> None:
        """Delay what the link of a node carries and drop a share, by a process: many kernels lack netem."""
        port, controller = f"port{self.nodes.index(node) + 1}", self.controller
        left, right = f"{port}a", f"{port}b"
        controller._ip("link", "add", left, "type", "veth", "peer", "name", right)
        for name in (left, right):
            controller._ip("link", "set", name, "up", "promisc", "on")
        controller._ip("link", "set", port, "nomaster", "promisc", "on")
        plain = "import sys; from llmperf_testing.slow_links import plain; plain(sys.argv[1])"
        node._net(sys.executable, "-c", plain, "eth0")
        controller._net(sys.executable, "-c", plain, left)
        log = self.folder / f"{port}.log"
        words = [port, right, f"{delay_seconds:g}", f"{loss:g}"]
        controller.start(sys.executable, "-m", "llmperf_testing.slow_links", *words, log=log)
        deadline = time.monotonic() + START_SECONDS
        while "ready" not in log.read_text():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the slow link did not start: {log.read_text()[-500:]}")
            time.sleep(0.05)
        controller._ip("link", "set", left, "master", "eth0")

    def close(self) -> None:
        """End every host with all its processes."""
        for host in self._made:
            host.lose()

    def __enter__(self) -> Hosts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _only_child(pid: int) -> int:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.01)
    raise RuntimeError(f"process {pid} has no child")
