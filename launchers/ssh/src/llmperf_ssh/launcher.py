"""The launcher `ssh`: one OpenSSH client for each node."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path

from llmperf.errors import UserError
from llmperf.types import Node, NodeCommand, NodeRequest

from llmperf_ssh.client import command_line, explanation, resolved_name, ssh_argv, ssh_client
from llmperf_ssh.hosts import parse_host, read_host_file
from llmperf_ssh.options import WHERE, Options, checked_options

CLIENTS_AT_ONCE = 16
"""Clients that resolve names at the same time."""
HOSTS_SHOWN = 8
"""Hosts that a message names."""


class SshLauncher:
    """Brings commands to hosts that the user can log in to without a password."""

    name = "ssh"

    def __init__(self) -> None:
        self._options = Options()

    def nodes(self, request: NodeRequest) -> Sequence[Node]:
        """The hosts of `--hosts`, or else of the host file; UserError for one that is misspelt or has too few slots."""
        options = checked_options(request.options)
        file = None if options.hostfile is None else read_host_file(Path(options.hostfile).expanduser())
        if not request.hosts and file is None:
            raise UserError("launcher 'ssh': expected hosts, as --hosts a,b or launchers.ssh.hostfile in llmperf.toml")
        known = [*(request.hosts or (file.slots if file else ()))]
        hosts = known[: request.nodes]
        if len(hosts) < len(known):
            source = "--hosts" if request.hosts else options.hostfile
            print(
                f"{len(hosts)} of the {len(known)} hosts of {source}: {', '.join(hosts[:HOSTS_SHOWN])};"
                f" the run has nodes={len(hosts)}, and nodes={len(known)} would use all",
                file=sys.stderr,
            )
        parsed = [parse_host(host, "--hosts" if request.hosts else str(options.hostfile)) for host in hosts]
        if file is not None:
            for host in hosts:
                if host not in file.slots:
                    more = f" and {len(file.slots) - HOSTS_SHOWN} more" if len(file.slots) > HOSTS_SHOWN else ""
                    listed = ", ".join([*file.slots][:HOSTS_SHOWN])
                    raise UserError(f"--hosts: {host} is not in {file.path}; it has {listed}{more}")
                slots, wanted = file.slots[host], request.devices
                if slots is not None and wanted is not None and slots < wanted:
                    where = f"{file.path}: host {host}"
                    raise UserError(f"{where}: expected at least {wanted} slots (--devices), found {slots}")
        client = ssh_client()
        with ThreadPoolExecutor(CLIENTS_AT_ONCE) as clients:
            names = list(clients.map(lambda host: resolved_name(client, host, options), parsed))
        addresses = [_address(options, text, host.name, name)
                     for text, host, name in zip(hosts, parsed, names, strict=True)]  # fmt: skip
        _check_addresses(hosts, addresses)
        self._options = options
        return [
            Node(
                host=host,
                address=address,
                interface=options.interface,
                env=options.env,
                devices=file.slots[host] if file else None,
            )
            for host, address in zip(hosts, addresses, strict=True)
        ]

    def commands(self, nodes: Sequence[NodeCommand]) -> Sequence[NodeCommand]:
        """An ssh client for each node, in the user's environment; the remote command gets its variables from `env`."""
        client = ssh_client()
        return [
            NodeCommand(
                node_rank=node.node_rank,
                host=node.host,
                argv=ssh_argv(
                    client, parse_host(node.host, "host"), self._options, [command_line(node.argv, node.env)]
                ),
                env={},
            )
            for node in nodes
        ]

    def explain(self, host: str, exit_code: int, errors: str) -> str | None:
        """Reason why the client of a host ended, with a remedy."""
        return explanation(host, exit_code, errors, self._options.identity)


def _address(options: Options, text: str, name: str, resolved: str) -> str:
    """The address for the other nodes: as the user says, otherwise as the ssh configuration resolves the name."""
    address = options.addresses.get(text, options.addresses.get(name, resolved))
    if parse_host(address, f"{WHERE}.addresses: {text}").name != address:
        raise UserError(f"{WHERE}.addresses: {text}: expected a name or an address, found {address!r}")
    return address


def _check_addresses(hosts: Sequence[str], addresses: Sequence[str]) -> None:
    """UserError if one host's address means every host itself, while there are others."""
    local = [host for host, address in zip(hosts, addresses, strict=True) if _loopback(address)]
    if local and len(local) == len(hosts) > 1:
        raise UserError(
            f"hosts {', '.join(local[:HOSTS_SHOWN])}: expected different machines, found loopback addresses, which all"
            " mean this machine; name it once"
        )
    if local and len(local) < len(hosts):
        raise UserError(
            f"host {local[0]}: the other hosts cannot reach it by a loopback address; add to llmperf.toml:"
            f' [launchers.ssh.addresses] "{local[0]}" = "ADDRESS"'
        )


def _loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost" or address.endswith(".localhost")
