"""Who may talk with node 0: only those who know the secret, and nothing that they did not send."""

import socket
import threading

import pytest
from llmperf_inside.frames import (
    HEADER,
    INPUT,
    JOIN,
    MAC_BYTES,
    MAX_DATA_BYTES,
    OUTPUT,
    BadFrame,
    Connection,
    Frame,
    accept,
    call,
)

SECRET = b"s" * 32


def shaken(sock, secret=SECRET):
    """The result of `accept` on one end of a pair, in a thread."""
    results = []

    def work():
        try:
            results.append(accept(sock, secret))
        except (BadFrame, EOFError, OSError) as error:
            results.append(error)
            sock.close()

    thread = threading.Thread(target=work)
    thread.start()
    return thread, results


@pytest.fixture
def pair():
    ends = socket.socketpair()
    for end in ends:
        end.settimeout(5)
    yield ends
    for end in ends:
        end.close()


@pytest.fixture
def joined(pair):
    """Both ends, after the handshake."""
    thread, results = shaken(pair[0])
    caller = call(pair[1], SECRET)
    thread.join()
    return results[0], caller


def test_both_sides_exchange_frames(joined):
    listener, caller = joined
    caller.send(INPUT, 7, b"data")
    assert listener.receive() == (INPUT, 7, b"data")
    data = b"x" * (MAX_DATA_BYTES + 1)
    sending = threading.Thread(target=listener.send_stream, args=(OUTPUT, 7, data))
    sending.start()
    assert caller.receive().data + caller.receive().data == data
    sending.join()


def test_a_caller_without_the_secret_is_refused_by_both(pair):
    thread, results = shaken(pair[0])
    with pytest.raises(BadFrame, match="another secret"):
        call(pair[1], b"t" * 32)
    pair[1].close()
    thread.join()
    assert str(results[0]) == "another secret, since it ended the handshake"


def test_a_caller_that_skips_the_proof_is_refused(pair):
    thread, results = shaken(pair[0])
    stranger = pair[1]
    stranger.sendall(b"llmperf-inside-1\n" + b"c" * 32 + b"p" * MAC_BYTES)
    thread.join()
    assert str(results[0]) == "another secret"


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\nHost: node\r\n\r\n", b"\0" * 1000])
def test_garbage_is_refused(pair, garbage):
    thread, results = shaken(pair[0])
    pair[1].sendall(garbage)
    thread.join()
    assert str(results[0]) == "another protocol"


def test_the_answer_of_a_listener_is_no_proof_of_a_caller(pair):
    """A stranger that sends back what it was sent."""
    thread, results = shaken(pair[0])
    stranger = pair[1]
    stranger.sendall(b"llmperf-inside-1\n" + b"c" * 32)
    answer = stranger.recv(1000)
    stranger.sendall(answer[-MAC_BYTES:])
    thread.join()
    assert str(results[0]) == "another secret"


def test_a_repeated_a_changed_and_a_foreign_frame_end_the_connection(pair):
    for change in ("repeated", "changed", "foreign"):
        ours, theirs = socket.socketpair()
        thread, results = shaken(theirs)
        caller = call(ours, SECRET)
        thread.join()
        listener = results[0]
        wire = recorded(caller, INPUT, 1, b"data")
        if change == "changed":
            wire = wire.replace(b"data", b"dada")
        if change == "foreign":
            wire = recorded(Connection(ours, (b"k" * 32, b"k" * 32)), INPUT, 1, b"data")
        ours.sendall(wire)
        if change == "repeated":
            assert listener.receive().data == b"data"
            ours.sendall(wire)
        with pytest.raises(BadFrame, match="changed, repeated, or not from the other side"):
            listener.receive()
        ours.close()
        theirs.close()


def recorded(connection, *frame):
    """The bytes of a frame as they go over the wire."""
    sender, reader = socket.socketpair()
    real, connection.socket = connection.socket, sender
    connection.send(*frame)
    connection.socket = real
    sender.close()
    with reader:
        return reader.recv(10_000)


def test_a_frame_of_a_gigabyte_is_refused_before_it_is_read(joined):
    listener, caller = joined
    caller.socket.sendall(HEADER.pack(INPUT, 1, 1 << 30))
    with pytest.raises(BadFrame, match="a frame of 1073741824 bytes"):
        listener.receive()


@pytest.mark.parametrize("data", [b"[" * 200_000, b"{", b"[]"])
def test_a_frame_without_a_document_is_refused(data):
    with pytest.raises(BadFrame, match="a frame without"):
        Frame(JOIN, 0, data).document()
