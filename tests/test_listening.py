"""Where the ranks of a run listen: on the loopback interface, under each framework."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

LISTENING = "0A"
LOOPBACK = ("127.", "::1", "::ffff:127.")
FRAMEWORKS = {
    "pytorch": ("--framework", "pytorch"),
    "zero": (),
    "megatron TP2": ("--framework", "megatron_deepspeed", "--set", "tensor_parallel=2"),
    "megatron PP2": ("--framework", "megatron_deepspeed", "--set", "pipeline_parallel=2"),
    "paddle": ("--framework", "paddle"),
    "lora": ("--framework", "lora", "--set", "contract.lora.rank=8"),
}


def listening(run):
    """Addresses and ports that the processes of a run listen on, each with the interface it is bound to, if any."""
    sockets: dict[str, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            if run.name.encode() not in words:
                continue
            links = {int(one.name): os.readlink(one) for one in (entry / "fd").iterdir()}
        except OSError:
            continue
        sockets.update({link[8:-1]: (int(entry.name), fd) for fd, link in links.items() if link.startswith("socket:[")})
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENING and words[9] in sockets:
                found[address(words[1])] = interface(*sockets[words[9]])
    return found


def interface(process, descriptor):
    """What another process's socket is bound to by SO_BINDTODEVICE; empty if to nothing."""
    syscall, pidfd_open, pidfd_getfd, bind_to_device = ctypes.CDLL(None).syscall, 434, 438, 25
    copy = syscall(pidfd_getfd, syscall(pidfd_open, process, 0), descriptor, 0)
    with socket.socket(fileno=copy) as one:
        return one.getsockopt(socket.SOL_SOCKET, bind_to_device, 16).rstrip(b"\0").decode()


def address(text):
    """`127.0.0.1:8080` of `0100007F:1F90`: words of 32 bits, each as the host holds it."""
    digits, port = text.split(":")
    data = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    if len(data) == 4:
        host = ".".join(map(str, data))
    elif data[:12] == bytes(10) + b"\xff\xff":
        host = "::ffff:" + ".".join(map(str, data[12:]))
    else:
        host = "::1" if data == bytes(15) + b"\1" else data.hex()
    return f"{host}:{int(port, 16)}"


@pytest.mark.parametrize(
    "framework",
    [
        name if name in ("zero", "megatron PP2", "paddle") else pytest.param(name, marks=pytest.mark.long)
        for name in FRAMEWORKS
    ],
)
def test_the_ranks_of_one_node_listen_on_the_loopback_interface_alone(running, framework):
    small = ["--set", "model=llama_tiny", "--set", "seq_len=64", "--set", "steps=3000"]
    _, folder, _ = running("default", *small, *FRAMEWORKS[framework])
    found = listening(folder)
    assert found
    outside = {where: bound for where, bound in found.items() if not where.startswith(LOOPBACK) and bound != "lo"}
    assert outside == {}
