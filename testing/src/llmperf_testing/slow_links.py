"""A slow link between network interfaces, for kernels without netem: a process that passes frames on later, or not.

    python -m llmperf_testing.slow_links LEFT RIGHT DELAY_SECONDS LOSS

Both interfaces must leave checksums and segmentation to the processor (`plain`), so that frames pass as they are.
"""

from __future__ import annotations

import fcntl
import heapq
import random
import select
import socket
import struct
import sys
import time

ALL_PROTOCOLS = 0x0003
ETHTOOL_IOCTL = 0x8946
OFFLOADS = (0x17, 0x1F, 0x24, 0x2C)
"""ethtool's commands for transmit checksums, TCP segmentation, generic segmentation and generic receive offload."""
MAX_FRAME_BYTES = 65536
MAX_WAITING = 10_000
"""Frames on their way; more are dropped."""


def plain(interface: str) -> None:
    """Turn off what would leave work on frames to the network card."""
    import array

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in OFFLOADS:
            value = array.array("B", struct.pack("II", command, 0))
            request = struct.pack("16sP", interface.encode(), value.buffer_info()[0])
            fcntl.ioctl(control, ETHTOOL_IOCTL, request)


def relay(left: str, right: str, delay_seconds: float, loss: float) -> None:
    """Pass frames on between two interfaces until the process is killed."""
    sockets = []
    for name in (left, right):
        plain(name)
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
        raw.bind((name, ALL_PROTOCOLS))
        sockets.append(raw)
    draw = random.Random(0)
    waiting: list[tuple[float, int, int, bytes]] = []
    count = 0
    print("ready", flush=True)
    while True:
        wait = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select(sockets, [], [], wait)
        now = time.monotonic()
        for raw in ready:
            frame, address = raw.recvfrom(MAX_FRAME_BYTES)
            if address[2] == socket.PACKET_OUTGOING or draw.random() < loss or len(waiting) >= MAX_WAITING:
                continue
            count += 1
            heapq.heappush(waiting, (now + delay_seconds, count, 1 - sockets.index(raw), frame))
        while waiting and waiting[0][0] <= now:
            _, _, to, frame = heapq.heappop(waiting)
            try:
                sockets[to].send(frame)
            except OSError:  # a full queue loses frames, as real links do
                continue


if __name__ == "__main__":
    relay(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
