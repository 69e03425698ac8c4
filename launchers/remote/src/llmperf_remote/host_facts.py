"""The state of a node: system, processor, memory, limits, interfaces, packages and the variables that plugins name."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import resource
import shutil
import socket
import struct
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.errors import UserError, unknown
from llmperf.launching import package_versions, this_host
from llmperf.types import Facts, Node
from llmperf.types.units import Count, NonNegative, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The state of a host when it was asked."""

    hostname: str
    boot_id: str | None
    """Drawn by the kernel when it started: nodes with the same one share a machine. None if unknown."""
    os: str
    """Name, such as `Debian GNU/Linux 12 (bookworm)`."""
    kernel: str
    cpu: str | None
    cores: Positive
    """Cores that this process may use."""
    load: NonNegative | None
    memory_bytes: Positive | None
    memory_free_bytes: Count | None
    """Memory that can be used without swapping."""
    shared_memory_bytes: Count | None
    """Size of /dev/shm; None if there is none."""
    temporary_folder: str
    """Folder in which the node keeps its run folder."""
    temporary_free_bytes: Count | None
    """Free space of that folder's file system."""
    open_files: Count | None
    """Limit of open files for a process; None if unlimited."""
    locked_bytes: Count | None
    """Limit of memory that a process may lock, which RDMA needs; None if unlimited."""
    interfaces: tuple[NetworkInterface, ...]
    known_as: tuple[str, ...]
    """Numeric addresses to which the launcher's name of the node resolves on the node itself."""
    packages: Mapping[str, str]
    """Versions of installed packages that affect the training speed, by import name."""
    environment: Mapping[str, str]
    """Variables that plugins name, without secrets."""


def host_facts(facts: Facts, known_as: tuple[str, ...] = ()) -> HostFacts:
    """The facts of this host, with the packages and variables that `facts` name."""
    folder, host = tempfile.gettempdir(), this_host({}, facts)
    boot_id = load = memory_free = shared = free = None
    with suppress(OSError):
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip() or None
    with suppress(OSError):
        load = os.getloadavg()[0]
    with suppress(OSError, ValueError, IndexError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        memory_free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])
    with suppress(OSError):
        free = shutil.disk_usage(folder).free
    with suppress(OSError):
        shared = shutil.disk_usage("/dev/shm").total
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK)]
    open_files, locked = (None if soft == resource.RLIM_INFINITY else soft for soft in limits)
    return HostFacts(
        hostname=socket.gethostname(),
        boot_id=boot_id,
        os=host.os,
        kernel=host.kernel,
        cpu=host.cpu,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        load=load,
        memory_bytes=host.memory_bytes,
        memory_free_bytes=memory_free,
        shared_memory_bytes=shared,
        temporary_folder=folder,
        temporary_free_bytes=free,
        open_files=open_files,
        locked_bytes=locked,
        interfaces=network_interfaces(),
        known_as=known_as,
        packages=package_versions(facts.packages),
        environment=host.environment,
    )


FOLDER = Path("/sys/class/net")
RTM_GETADDR, NLM_F_REQUEST, NLM_F_DUMP = 22, 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE, RTM_NEWADDR = 2, 3, 20
IFA_ADDRESS, IFA_LOCAL = 1, 2
SIOCGIFFLAGS, SIOCGIFMTU = 0x8913, 0x8921
IFF_UP, IFF_RUNNING = 0x1, 0x40
MAX_INTERFACES = 256
MAX_NAME_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkInterface:
    """A network interface of a node, as the kernel shows it."""

    name: str
    addresses: tuple[str, ...]
    """Numeric addresses, IPv4 first, without the zone of link-local ones."""
    up: bool
    mtu: Positive | None = None
    """Largest packet in bytes."""
    megabits_per_second: NonNegative | None = None
    """Speed of the link as its driver states it; None if it states none, as virtual links do."""

    def __post_init__(self) -> None:
        """ValueError for names and addresses that no kernel gives: other nodes report them."""
        if not 0 < len(self.name) < MAX_NAME_BYTES or not self.name.isprintable() or set(self.name) & set(" /"):
            raise ValueError(f"expected the name of a network interface, found {self.name[:80]!r}")
        for address in self.addresses:
            if "%" in address[:80]:
                raise ValueError(f"expected a numeric address without a zone, found {address[:80]!r}")
            ipaddress.ip_address(address[:80])

    @property
    def loopback(self) -> bool:
        """It reaches this node only."""
        return any(ipaddress.ip_address(address).is_loopback for address in self.addresses)


def network_interfaces() -> tuple[NetworkInterface, ...]:
    """The interfaces of this host in the kernel's order; empty where the system does not show them."""
    try:
        indices = socket.if_nameindex()[:MAX_INTERFACES]
    except OSError:
        return ()
    addresses: Mapping[int, Sequence[str]] = {}
    with suppress(OSError, AttributeError, struct.error):
        addresses = _addresses()
    return tuple(
        NetworkInterface(
            name=name,
            addresses=tuple(addresses.get(index, ())),
            up=flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING,
            mtu=mtu,
            megabits_per_second=_speed(name),
        )
        for index, name in indices
        for flags, mtu in [_flags_and_mtu(name)]
    )


def _speed(name: str) -> int | None:
    """Drivers give -1 or an error for an unknown speed."""
    try:
        value = int((FOLDER / name / "speed").read_text())
    except (OSError, ValueError):
        return None
    return value if value > 0 else None


def _flags_and_mtu(name: str) -> tuple[int, int | None]:
    """Flags and MTU by ioctl, since /sys may belong to another network namespace; no flags if the interface is gone."""
    request = struct.pack("16s16x", name.encode()[:15])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
            flags = fcntl.ioctl(handle, SIOCGIFFLAGS, request)
            mtu = fcntl.ioctl(handle, SIOCGIFMTU, request)
    except OSError:
        return 0, None
    return struct.unpack_from("=H", flags, 16)[0], struct.unpack_from("=i", mtu, 16)[0] or None


def _addresses() -> dict[int, list[str]]:
    """Addresses by the index of their interface, read through netlink."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.settimeout(5.0)
        link.bind((0, 0))
        link.send(struct.pack("=IHHIIBBBBI", 24, RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, 1, 0, 0, 0, 0, 0, 0))
        while True:
            data = link.recv(2**18)
            while len(data) >= 16:
                size, kind = struct.unpack_from("=IH", data)
                if kind in (NLMSG_DONE, NLMSG_ERROR) or size < 16:
                    return {index: sorted(known, key=lambda text: ":" in text) for index, known in found.items()}
                if kind == RTM_NEWADDR:
                    family, index = data[16], struct.unpack_from("=I", data, 20)[0]
                    if address := _address(family, data[24:size]):
                        found[index].append(address)
                data = data[(size + 3) & ~3 :]


def _address(family: int, attributes: bytes) -> str | None:
    """The node's own address in the attributes of one message; on point-to-point links the other is the peer's."""
    known: dict[int, bytes] = {}
    while len(attributes) >= 4:
        size, kind = struct.unpack_from("=HH", attributes)
        if size < 4:
            break
        known[kind] = attributes[4:size]
        attributes = attributes[(size + 3) & ~3 :]
    raw = known.get(IFA_LOCAL, known.get(IFA_ADDRESS))
    return socket.inet_ntop(family, raw) if raw is not None and family in (socket.AF_INET, socket.AF_INET6) else None


def resolved(name: str) -> tuple[str, ...]:
    """The numeric addresses that a name or address has on this host, IPv4 first; empty if it has none."""
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    addresses = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in entries)
    return tuple(sorted(addresses, key=lambda text: ":" in text))


def with_interface(
    node: Node, interfaces: Sequence[NetworkInterface], known_as: Iterable[str], wanted: str | None
) -> Node:
    """A node with its interface (`wanted`, the launcher's, or that of an address in `known_as`) and address on it."""
    by_name = {interface.name: interface for interface in interfaces}
    name = wanted or node.interface
    where = f"node {node.host}: {'--interface' if wanted else 'interface'}"
    candidates = list(dict.fromkeys([node.address, *known_as]))
    if name is not None:
        if name not in by_name:
            raise (
                unknown(where, "interface", name, by_name)
                if by_name
                else UserError(f"{where}: expected {name!r}, found no interfaces")
            )
        interface = by_name[name]
        usable = _usable(interface)
        if not usable:
            others = ", ".join(interface.name for interface in interfaces if _usable(interface))
            advice = f"expected one of {others}" if others else "no interface of the node has one"
            raise UserError(f"{where}: {name!r} has no address; {advice}")
        address = next((address for address in candidates if address in usable), usable[0])
        return replace(node, address=address, interface=name)
    local = {
        "localhost",
        *(address for interface in interfaces if interface.loopback for address in interface.addresses),
    }
    for address in candidates:
        holder = next((interface for interface in interfaces if address in interface.addresses), None)
        # a node's own name often means its loopback interface there, which other nodes do not reach
        if holder is not None and (not holder.loopback or node.address in local):
            return replace(node, address=address, interface=holder.name)
    return node


def _usable(interface: NetworkInterface) -> list[str]:
    """The addresses that other nodes can use without naming a zone."""
    return [address for address in interface.addresses if not ipaddress.ip_address(address).is_link_local]
