"""SSH servers on the hosts of `llmperf_testing.hosts`, with keys and a client configuration of their own."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from llmperf_testing.hosts import Host, Hosts

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
START_SECONDS = 60.0
PORT = 22
CONFIG = Path(__file__).with_name("sshd_config").read_text()


def missing() -> str | None:
    """Reason why no SSH server can be started, in one line; None if one can."""
    absent = [name for name in ("ssh", "ssh-keygen") if shutil.which(name) is None]
    if absent or SSHD is None:
        return "needs OpenSSH: openssh-client and openssh-server"
    return None


class SshServers:
    """A server on each node, which one key may use. Nothing in the user's home folder is read or changed."""

    def __init__(self, hosts: Hosts, environment: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """`environment` has variables for the sessions on a node, by the node's name."""
        self._hosts = hosts
        self._folder = hosts.folder / "ssh"
        self._folder.mkdir()
        self._folder.chmod(0o700)
        self.identity = self.key("identity")
        """The private key that the servers accept."""
        self.known_hosts = self._folder / "known_hosts"
        self.config = self._folder / "config"
        """The configuration of the client."""
        host_key = self.key("host_key")
        public = host_key.with_suffix(".pub").read_text().strip()
        names = [name for node in hosts.nodes for name in (node.name, node.address)]
        self.known_hosts.write_text("".join(f"{name} {public}\n" for name in names))
        self.config.write_text(
            f"Host *\n  IdentityFile {self.identity}\n  IdentitiesOnly yes\n  GlobalKnownHostsFile /dev/null\n"
            f"  UserKnownHostsFile {self.known_hosts}\n"
        )
        Path("/run/sshd").mkdir(exist_ok=True)
        for node in hosts.nodes:
            self.serve(node, host_key, (environment or {}).get(node.name, {}))
        for node in hosts.nodes:
            self._await(node)

    def key(self, name: str) -> Path:
        """A new pair of keys: the path of the private one."""
        path = self._folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path], check=True)
        return path

    def serve(self, node: Host, host_key: Path, environment: Mapping[str, str]) -> None:
        """Start the server of a node."""
        assert SSHD is not None
        variables = [f'"{name}={value}"' for name, value in environment.items()]
        # a host has a /tmp of its own, so that the folder of these files may not be there
        files = {
            "host_key": host_key.read_text(),
            "keys": self.identity.with_suffix(".pub").read_text(),
            "config": CONFIG.format(port=PORT, address=node.address)
            + (f"SetEnv {' '.join(variables)}\n" if variables else ""),
        }
        node.run("mkdir", "-p", "/tmp/sshd", check=True)
        for name, text in files.items():
            node.run("sh", "-c", 'umask 077; printf "%s" "$1" > "$0"', f"/tmp/sshd/{name}", text, check=True)
        node.start(SSHD, "-D", "-e", "-f", "/tmp/sshd/config", log=self._folder / f"{node.name}.log")

    def _await(self, node: Host) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if "Server listening" in (self._folder / f"{node.name}.log").read_text():
                return
            time.sleep(0.02)
        raise RuntimeError(f"{node.name}: {(self._folder / f'{node.name}.log').read_text()[-500:]}")
