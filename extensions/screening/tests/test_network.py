"""Ports and transfers between nodes, here addresses of the loopback interface."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest
from llmperf.errors import UserError
from llmperf_screening import network
from llmperf_screening.network import Listener, contact, transfer_as_client, transfer_as_server
from llmperf_screening.stages import Peer

SECRET = "0123456789abcdef"


@pytest.fixture
def listener():
    opened = Listener("127.0.0.2", SECRET)
    yield opened
    opened.close()


def peer(port: int) -> Peer:
    return Peer(address="127.0.0.2", port=port, free_port=0)


def test_a_node_with_the_secret_is_answered(listener):
    reached = contact(1, peer(listener.port), "127.0.0.1", SECRET)
    assert reached.problem is None
    assert reached.latency_seconds is not None
    assert reached.latency_seconds > 0


@pytest.mark.parametrize("greeting", [b"wrong ping\n", b"\n", b"x" * 300, SECRET[:-1].encode() + b" ping\n"])
def test_a_stranger_is_sent_away_without_a_byte(listener, greeting):
    with socket.create_connection(("127.0.0.2", listener.port), 60) as stranger:
        stranger.sendall(greeting)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""


def test_only_the_given_address_listens(listener):
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", listener.port), 60)


def test_a_closed_port_and_a_foreign_address_have_a_reason():
    with socket.socket() as closed:
        closed.bind(("127.0.0.2", 0))  # and nothing listens: no other process can
        assert contact(1, peer(closed.getsockname()[1]), "127.0.0.1", SECRET).problem == "connection refused"
    with pytest.raises(UserError, match=r"cannot listen on 192\.0\.2\.77: [Cc]annot assign requested address"):
        Listener("192.0.2.77", SECRET)


@pytest.mark.slow
def test_a_transfer_is_measured_in_both_directions(listener):
    served = []
    serving = threading.Thread(target=lambda: served.append(transfer_as_server(listener, 0, 7)))
    serving.start()
    done = transfer_as_client(1, peer(listener.port), "127.0.0.1", SECRET, 7, 0)
    serving.join()
    assert served[0].problem is None
    assert done.problem is None
    assert min(done.sent_bytes_per_second or 0, done.received_bytes_per_second or 0) > 1e6
    assert done.path_mtu


@pytest.mark.slow
def test_a_greeting_has_one_deadline_for_all_its_bytes(listener, monkeypatch):
    monkeypatch.setattr(network, "CONNECT_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.2", listener.port), 60) as stranger:
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 60:
                stranger.sendall(b"x")
                stranger.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    if not stranger.recv(1):
                        break
        assert time.monotonic() - began < 60


@pytest.mark.slow
def test_connections_that_never_greet_do_not_keep_a_node_out(listener, monkeypatch):
    monkeypatch.setattr(network, "MAX_CONNECTIONS", 8)
    with contextlib.ExitStack() as held:
        for _ in range(300):
            stranger = held.enter_context(socket.create_connection(("127.0.0.2", listener.port), 60))
        stranger.sendall(SECRET.encode())
        time.sleep(0.2)
        assert contact(1, peer(listener.port), "127.0.0.1", SECRET).problem is None
