"""Ports and transfers between nodes, here addresses of the loopback interface."""

import contextlib
import json
import re
import socket
import statistics
import threading
import time
from dataclasses import dataclass

import pytest
from llmperf import encode_pretty
from llmperf.errors import UserError
from llmperf.types import ReachedNode
from llmperf_screening import network
from llmperf_screening.comparison import compared
from llmperf_screening.network import Listener, contact, transfer_as_client, transfer_as_server
from llmperf_screening.screen import Screening
from llmperf_screening.stages import Contact, Figure, Peer, ScreenAnswer
from llmperf_screening.verdict import Verdict, verdict

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


@dataclass
class Cluster:
    """Two nodes; the second one is hostile in one stage."""

    stage: str
    evil: ScreenAnswer

    nodes = tuple(
        ReachedNode(host=name, address=f"10.0.0.{place}", interface="eth0", machine="one", accelerators=0)
        for place, name in enumerate(["good", "bad"])
    )
    failed = 0

    def ask(self, name, arguments, seconds):
        return {rank: json.loads(encode_pretty(self._answer(rank, arguments))) for rank in range(2)}

    def _answer(self, rank, task) -> ScreenAnswer:
        stage, other = task.stage, 1 - rank
        if stage in ("reach", "transfer") and not task.partners[rank]:
            return ScreenAnswer()
        honest = {
            "listen": ScreenAnswer(port=4000, free_port=4001),
            "checks": ScreenAnswer(figures=(figure(),) if rank in task.ranks else ()),
            "reach": ScreenAnswer(contacts=(Contact(peer=other, latency_seconds=1e-4),)),
            "transfer": ScreenAnswer(
                contacts=(Contact(peer=1, sent_bytes_per_second=1e9, received_bytes_per_second=1e9),)
                if rank == 0
                else (Contact(peer=0),)
            ),
        }[stage]
        return self.evil if rank == 1 and stage == self.stage and honest != ScreenAnswer() else honest


def figure(**changes) -> Figure:
    return Figure(**{"check": "copy", "unit": "B/s", "value": 1e9, **changes})


def judged(stage: str, evil: ScreenAnswer) -> Verdict:
    return verdict(Screening(Cluster(stage, evil), together=False).run())


@pytest.mark.parametrize(
    ("stage", "evil", "message"),
    [
        ("reach", ScreenAnswer(contacts=(Contact(peer=999, problem="x"),)), r"contacts: expected \[0\], each once"),
        ("transfer", ScreenAnswer(contacts=(Contact(peer=999, problem="x"),)), r"contacts: expected \[0\], each once"),
        ("transfer", ScreenAnswer(contacts=(Contact(peer=0, sent_bytes_per_second=1.0),)), "node of the lower rank"),
        ("listen", ScreenAnswer(port=70_000), "port: expected at most 65535, found 70000"),
        ("reach", ScreenAnswer(figures=(figure(),)), "figures: expected none in the stage 'reach', found 1"),
        ("checks", ScreenAnswer(figures=(figure(),) * 2), "copy: expected one figure for each device, found several"),
        ("checks", ScreenAnswer(figures=(figure(device=7),)), r"copy: expected a device in \[\], found 7"),
        ("checks", ScreenAnswer(figures=(figure(check="\x1b[2J"),)), r"check: expected a printable text"),
        ("checks", ScreenAnswer(figures=(figure(unit="B" * 999),)), r"unit: expected a printable text"),
        (
            "checks",
            ScreenAnswer(figures=tuple(figure(check=f"check {place}") for place in range(200))),
            "figures: expected at most 128 checks, found more",
        ),
    ],
)
def test_an_answer_that_was_not_asked_for_names_its_node(stage, evil, message):
    (line,) = judged(stage, evil).unreachable
    assert line.startswith("node bad: screening: ")
    assert re.search(message, line)
    assert line.isprintable()


@pytest.mark.parametrize("stage", ["reach", "transfer", "checks"])
def test_a_reason_with_control_characters_is_printable_and_short(stage):
    reason = "\x1b]0;title\x07\nsecond line" + "x" * 9999
    evil = ScreenAnswer(figures=(figure(value=None, problem=reason),))
    if stage != "checks":
        evil = ScreenAnswer(contacts=(Contact(peer=0, problem=reason),))
    found = judged(stage, evil)
    lines = (*found.unreachable, *found.not_measured)
    assert all(line.isprintable() and len(line) < 700 for line in lines)
    assert any(r"\x1b]0;title" in line for line in lines)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
def test_a_figure_is_compared_with_the_median_of_the_others(count):
    values = [float(value) for value in (5, 1, 4, 1, 9, 2)[:count]]
    items = list(compared([[figure(value=value)] for value in values]))
    for place, item in enumerate(items):
        rest = values[:place] + values[place + 1 :]
        assert item.others == (statistics.median(rest) if rest else None)
