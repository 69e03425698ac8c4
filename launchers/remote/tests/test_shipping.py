"""Files of a node on their way to the controller: complete, in any portions, and only where the node may write."""

import base64
import json
import os
import tempfile
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.runfolder.endings import AgentReport, Host, RankExit
from llmperf.runfolder.logs import HEAD_BYTES
from llmperf.types import Layout
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
from llmperf_remote.run_on_node import RunOnNode, node_folder
from llmperf_remote.shipping import Receiver, Shipper

LAYOUT = Layout(nodes=2, devices_per_node=2, tensor_parallel=1, pipeline_parallel=1, data_parallel=4)


def folder(path):
    for name in ("records", "logs"):
        (path / name).mkdir(parents=True)
    return path


@pytest.fixture
def ends(tmp_path):
    """A node's folder and the controller's."""
    return folder(tmp_path / "node"), folder(tmp_path / "controller")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=20), st.lists(st.booleans(), min_size=60, max_size=60))
def test_a_growing_file_arrives_whole_over_a_busy_connection(tmp_path_factory, portions, takes):
    path = tmp_path_factory.mktemp("ship")
    node, controller = folder(path / "node"), folder(path / "controller")
    receiver, turns = Receiver(controller, LAYOUT, 10), iter(takes)

    def send(piece):
        if not next(turns, True):
            return False
        receiver.take(piece)
        return True

    shipper = Shipper(node, 1, send)
    records = node / "records" / "rank-00002.jsonl"
    records.touch()
    for portion in portions:
        with records.open("ab") as file:
            file.write(portion)
        shipper.ship()
    while not shipper.ship(final=True):
        pass
    arrived = controller / "records" / "rank-00002.jsonl"
    assert (arrived.read_bytes() if arrived.exists() else b"") == b"".join(portions)


def test_a_report_is_replaced_as_a_whole_and_half_written_files_stay(ends):
    node, controller = ends
    receiver = Receiver(controller, LAYOUT, 10)
    shipper = Shipper(node, 0, lambda piece: receiver.take(piece) or True)
    report = node / "records" / "agent-000.json"
    (node / "records" / ".agent-000.json.tmp").write_text("half")
    reports = [AgentReport(node_rank=0, pid=1, ranks=tuple(RankExit(rank=rank, pid=2) for rank in range(count)))
               for count in (2, 1, 0)]  # fmt: skip
    for text in [json_files.encode(state).decode() for state in reports]:
        report.write_text(text)
        os.utime(report, ns=(len(text), len(text)))
        shipper.ship()
        assert (controller / "records" / "agent-000.json").read_text() == text
    assert [path.name for path in (controller / "records").iterdir()] == ["agent-000.json"]


def test_a_long_log_arrives_as_the_agent_has_shortened_it(ends):
    node, controller = ends
    receiver = Receiver(controller, LAYOUT, 10)
    shipper = Shipper(node, 0, lambda piece: receiver.take(piece) or True)
    log, arrived = node / "logs" / "rank-00000.log", controller / "logs" / "rank-00000.log"
    log.write_bytes(b"x" * (HEAD_BYTES + 100))
    shipper.ship()
    assert arrived.stat().st_size == HEAD_BYTES
    log.write_bytes(b"y" * (HEAD_BYTES + 50))
    shipper.ship(final=True)
    assert arrived.read_bytes() == log.read_bytes()


def test_what_the_controller_has_is_not_sent_again(ends):
    node, _controller = ends
    pieces = []
    (node / "records" / "rank-00000.jsonl").write_bytes(b"first\nsecond\n")
    Shipper(node, 0, lambda piece: pieces.append(piece) or True, {"records/rank-00000.jsonl": 6}).ship(final=True)
    assert [(piece.offset, piece.file) for piece in pieces] == [(6, "records/rank-00000.jsonl")]


@pytest.fixture
def from_node_1(ends):
    """A function that gives the controller a piece of a file of node 1."""
    receiver = Receiver(ends[1], LAYOUT, 10)
    return lambda file, data=b"x", offset=0: receiver.take(Piece(node=1, file=file, offset=offset, data=packed(data)))


RECORDS = "records/rank-00002.jsonl"


@pytest.mark.parametrize(
    "file",
    ["records/rank-00000.jsonl", "records/rank-00004.jsonl",  # of node 0, and of no node
     "plan.json", "result.json", "../out", "/etc/passwd", "records/../plan.json", "records/agent-000.json",
     "logs/node-001.log", ""],
)  # fmt: skip
def test_a_node_writes_only_its_own_files(from_node_1, file):
    with pytest.raises(UserError, match=r"node 1: .*expected a file of its own ranks"):
        from_node_1(file)


@pytest.mark.parametrize("offset", [-1, 1, 2**60])
def test_bytes_elsewhere_than_at_the_end_are_refused(from_node_1, offset):
    with pytest.raises(UserError, match="expected bytes at 0"):
        from_node_1(RECORDS, offset=offset)


@pytest.mark.parametrize(
    "report",
    [
        AgentReport(node_rank=0, pid=1, ranks=()),
        AgentReport(node_rank=1, pid=1, ranks=(RankExit(rank=0, pid=1, exit_code=9, at=1.0),)),
        AgentReport(node_rank=1, pid=1, ranks=(RankExit(rank=99999999, pid=1, exit_code=9, at=1.0),)),
        AgentReport(node_rank=1, pid=1, ranks=(RankExit(rank=2, pid=1),) * 3),
        {"x": 1},
    ],
)
def test_a_node_reports_on_its_own_ranks_only(ends, from_node_1, report):
    with pytest.raises(UserError, match="node 1: "):
        from_node_1("records/agent-001.json", json_files.encode(report))
    assert not list((ends[1] / "records").iterdir())


def test_secrets_in_the_variables_of_a_node_are_not_kept(ends, from_node_1):
    host = Host(os="o", kernel="k", python="3", cpu=None, memory_bytes=None, environment={"A": "1", "HF_TOKEN": "hf_1"})
    from_node_1("records/host-001.json", json_files.encode(host))
    assert "hf_1" not in (ends[1] / "records" / "host-001.json").read_text()


def test_records_far_beyond_the_steps_of_the_run_are_refused(from_node_1):
    def send_all():
        for number in range(300):
            from_node_1(RECORDS, bytes(PIECE_BYTES), number * PIECE_BYTES)

    with pytest.raises(UserError, match="expected bytes at 0"):
        send_all()


def test_a_link_in_the_place_of_a_file_is_not_followed(ends, from_node_1, tmp_path):
    (tmp_path / "target").write_text("kept")
    (ends[1] / RECORDS).symlink_to(tmp_path / "target")
    with pytest.raises(UserError, match="cannot write"):
        from_node_1(RECORDS)
    assert (tmp_path / "target").read_text() == "kept"


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


def test_an_existing_folder_is_made_private(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    existing = tmp_path / f"llmperf-{os.getuid()}"
    existing.mkdir()
    existing.chmod(0o755)
    assert node_folder() == existing
    assert existing.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["a folder that others may write to", "a link", "a file"])
def test_a_folder_that_is_not_ours_is_left_alone(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    taken = tmp_path / f"llmperf-{os.getuid()}"
    if kind == "a link":
        (tmp_path / "elsewhere").mkdir()
        taken.symlink_to(tmp_path / "elsewhere")
    elif kind == "a file":
        taken.write_text("")
    else:
        taken.mkdir()
        taken.chmod(0o777)
    folder = node_folder()
    assert folder == tmp_path / f"{taken.name}-2"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert node_folder() == folder


def test_a_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    (tmp_path / "llmperf-4242").mkdir(mode=0o700)
    with pytest.raises(UserError, match="expected a folder that only this user can write to"):
        node_folder()  # all further names are made by this user, too, who is not 4242


@pytest.mark.parametrize("delivered", [True, False], ids=["another node refused", "the controller is gone"])
def test_a_run_that_was_prepared_and_not_started_leaves_nothing(tmp_path, monkeypatch, stub_plan, delivered):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plan = stub_plan()
    order = RunOrder(run_id=plan.run_id, plan=json_files.encode(plan), tag="tag", env={}, sample_seconds=1.0)
    run = RunOnNode(order, 0, lambda line, wait=True: True)
    assert (run.run.folder / "plan.json").is_file()
    run.end(delivered)
    assert list(tmp_path.iterdir()) == []
