"""Lines between the controller and node programs: they come back as they were, and hostile ones are refused."""

import base64
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf_remote.messages import (
    MAX_LINE_BYTES,
    PIECE_BYTES,
    START,
    Beat,
    Bundle,
    Echo,
    Ended,
    Piece,
    RunOrder,
    Task,
    bundles,
    line_of,
    message_of,
    order_of,
    packed,
    request_of,
    unpacked,
)


@given(st.binary(max_size=3000))
def test_bytes_come_back(data):
    assert unpacked(packed(data), "test") == data


@given(st.binary(max_size=200))
def test_a_piece_is_one_line_with_the_mark(data):
    piece = Piece(node=3, file="records/rank-00000.jsonl", offset=7, data=packed(data))
    line = line_of(piece)
    assert line.startswith(START)
    assert line.count(b"\n") == 1
    assert message_of(line, "test") == piece


def test_the_longest_piece_fits_in_a_line():
    import random

    noise = random.Random(0).randbytes(PIECE_BYTES)
    assert len(line_of(Piece(node=0, file="x", offset=0, data=packed(noise)))) < MAX_LINE_BYTES
    assert unpacked(packed(noise), "test") == noise


def test_an_order_of_any_size_comes_back_in_pieces():
    order = RunOrder(run_id="r", plan=b"{}" * PIECE_BYTES, tag="t", env={"A": "b"}, sample_seconds=1.0)
    lines = [request_of(line_of(bundle)) for bundle in bundles(order)]
    assert len(lines) > 1
    assert all(isinstance(line, Bundle) and line.pieces == len(lines) for line in lines)
    assert order_of(b"".join(unpacked(line.data, "test") for line in lines)) == order


@pytest.mark.parametrize(
    "text",
    [
        "no base64!",
        base64.b64encode(b"no zlib").decode(),
        base64.b64encode(zlib.compress(bytes(PIECE_BYTES + 1))).decode(),
        base64.b64encode(zlib.compress(bytes(2**28))).decode(),
        base64.b64encode(zlib.compress(b"cut off")[:-3]).decode(),
    ],
)
def test_a_piece_that_is_broken_or_too_large_is_refused(text):
    with pytest.raises(UserError, match="node 1"):
        unpacked(text, "node 1")


@pytest.mark.parametrize(
    "line",
    [b"", b"{}", b'{"llmperf":"no"}', b'{"llmperf":"echo","node":"x"}', b"[" * 100_000, b'{"llmperf":"task"}', b"\xff"],
)
def test_what_is_no_message_is_refused(line):
    with pytest.raises(UserError):
        message_of(line, "node 1")


def test_requests_and_messages_are_told_apart():
    assert request_of(line_of(Beat(number=4))) == Beat(number=4)
    assert request_of(line_of(Task(number=1, name="report", arguments={"vendor": None}))).name == "report"
    with pytest.raises(UserError):
        request_of(line_of(Ended(node=0, code=0)))
    assert json.loads(line_of(Echo(node=1, number=2, at=3.5))) == {"llmperf": "echo", "node": 1, "number": 2, "at": 3.5}
