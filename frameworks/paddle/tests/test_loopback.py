"""Sockets that listen everywhere are kept to the loopback interface; nothing else of the process is touched."""

import os
import socket
import sys

import pytest
from llmperf_paddle.gloo import SO_BINDTODEVICE, confine_stores

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="binds sockets to an interface as Linux does")


def test_sockets_that_listen_everywhere_are_confined(tmp_path):
    with (
        socket.create_server(("", 0)) as everywhere,
        socket.create_server(("127.0.0.1", 0)) as here,
        socket.socket() as idle,
        socket.socket(socket.AF_UNIX) as unix,
        (tmp_path / "file").open("w"),
    ):
        unix.bind(str(tmp_path / "socket"))
        unix.listen()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            confine_stores()
        assert len(os.listdir("/proc/self/fd")) == before
        assert [
            one.getsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, 16).rstrip(b"\0").decode()
            for one in (everywhere, here, idle)
        ] == ["lo", "", ""]
        with socket.create_connection(("127.0.0.1", everywhere.getsockname()[1])):
            pass
