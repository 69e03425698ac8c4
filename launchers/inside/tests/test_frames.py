"""Who may talk with node 0: only those who know the secret, and nothing that they did not send."""

import os
import socket
import tempfile
import threading
from pathlib import Path

import pytest
from llmperf.errors import UserError
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
from llmperf_inside.gate import listen
from llmperf_inside.membership import InsideOptions, first_host, membership, user_environment
from llmperf_inside.siblings import private_folder

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


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"llmperf-inside-1\n" + b"c" * 32 + b"p" * MAC_BYTES, "another secret"),
        (b"GET / HTTP/1.1\r\nHost: node\r\n\r\n", "another protocol"),
        (b"\0" * 1000, "another protocol"),
    ],
)
def test_a_caller_that_skips_the_proof_or_sends_garbage_is_refused(pair, sent, reason):
    thread, results = shaken(pair[0])
    pair[1].sendall(sent)
    thread.join()
    assert str(results[0]) == reason


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


TORCHRUN = {
    "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "node-a", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "run",
}  # fmt: skip
SRUN = {
    "SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_NNODES": "2",
    "SLURM_TASKS_PER_NODE": "4(x2)", "SLURM_JOB_NODELIST": "gpu[003-004]", "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0",
}  # fmt: skip
OPEN_MPI = {f"OMPI_COMM_WORLD_{name}": n for name, n in
            (("RANK", "5"), ("SIZE", "8"), ("LOCAL_RANK", "1"), ("LOCAL_SIZE", "4"))}  # fmt: skip
MPICH = {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"}
SKYPILOT = {"SKYPILOT_NODE_RANK": "1", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2", "SKYPILOT_NUM_NODES": "2"}
KUBEFLOW = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"}
TRAINER = {"PET_NODE_RANK": "1", "PET_NNODES": "2", "PET_MASTER_ADDR": "job-node-0-0", "PET_MASTER_PORT": "29400"}


@pytest.mark.parametrize(
    ("env", "place", "address"),
    [
        (TORCHRUN, (5, 8, 1, 4), "node-a"),
        (SRUN, (5, 8, 1, 4), "gpu003"),
        (OPEN_MPI, (5, 8, 1, 4), None),
        (MPICH, (5, 8, 1, 4), None),
        (SKYPILOT, (1, 2, 0, 1), "10.0.0.1"),
        (KUBEFLOW, (1, 2, 0, 1), "job-master-0"),
        (TRAINER, (1, 2, 0, 1), "job-node-0-0"),
        ({**SRUN, **TORCHRUN}, (5, 8, 1, 4), "node-a"),  # torchrun in a Slurm job
        ({**OPEN_MPI, "MASTER_ADDR": "head"}, (5, 8, 1, 4), "head"),
    ],
)
def test_the_place_of_a_process(env, place, address):
    member = membership(env)
    assert (member.rank, member.size, member.local_rank, member.local_size) == place
    assert member.nodes == 2
    assert member.address == address


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({}, "no engine has started this process: expected one of RANK and WORLD_SIZE and LOCAL_RANK (torchrun)"),
        ({**TORCHRUN, "RANK": "8"}, "variables of torchrun: expected a rank from 0 to 7, found 8"),
        ({**TORCHRUN, "RANK": "x"}, "RANK: expected a number, found 'x'"),
        ({**TORCHRUN, "LOCAL_RANK": "4"}, "expected a local rank from 0 to 3, found 4"),
        ({**TORCHRUN, "RANK": "0"}, "the local rank is 1, but the rank is 0"),
        (
            {**TORCHRUN, "LOCAL_WORLD_SIZE": "3"},
            "expected equally many processes on each node, found 8 processes on 2 nodes, 3 of them on this one",
        ),
        ({**TORCHRUN, "GROUP_RANK": "2"}, "expected a node number from 0 to 1, found 2"),
        ({**SRUN, "SLURM_TASKS_PER_NODE": "4,3"}, "found SLURM_TASKS_PER_NODE=4,3; start one process on each node"),
        ({**SRUN, "SLURM_TASKS_PER_NODE": "4" * 5000}, "start one process on each node"),
        ({**SRUN, "SLURM_STEP_ID": ""}, "this is the batch script of a Slurm job; start it with srun"),
        ({**SKYPILOT, "SKYPILOT_NUM_NODES": "3"}, "SKYPILOT_NODE_IPS: expected 3 addresses"),
        ({"PMI_RANK": "0", "MPI_LOCALRANKID": "0"}, "variables of MPICH: expected PMI_SIZE to be set"),
    ],
)
def test_variables_that_contradict_each_other(env, message, one_line):
    with one_line(message):
        membership(env)


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [
        ("gpu[003-005,7]-ib,login", "gpu003-ib"),
        ("a,b", "a"),
        ("rack-1-node", "rack-1-node"),
        ("n[1,3]", "n1"),
        ("", None),
    ],
)
def test_the_first_host_of_a_node_list(nodelist, host):
    assert first_host(nodelist) == host


def test_all_processes_of_a_job_derive_the_same_ports_and_key():
    first, second = (membership({**SRUN, "SLURM_PROCID": rank, "SLURM_LOCALID": "0"}) for rank in ("0", "4"))
    assert first.key == second.key
    assert first.ports == second.ports
    assert membership({**SRUN, "SLURM_JOB_ID": "18"}).key != first.key
    assert membership(TORCHRUN).ports == (29501, 29502, 29503, 29504)


def test_ranks_do_not_inherit_what_describes_a_process_of_the_engine():
    own = {"HOME": "/root", "SLURM_JOB_ID": "17", "NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": "0"}
    env = {**TORCHRUN, **SRUN, **OPEN_MPI, **MPICH, **TRAINER, "LLMPERF_SECRET": "s" * 16, "OMP_NUM_THREADS": "1"}
    kept = user_environment({**env, **own}, membership(env))
    assert kept == {**own, "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "gpu[003-004]"}


@pytest.mark.parametrize("port", ["65535", "999999999"])
def test_a_master_port_without_a_port_after_it(port):
    with pytest.raises(UserError, match=rf"^MASTER_PORT: expected at most 65534, .* found {port}$"):
        listen(membership({**TORCHRUN, "MASTER_PORT": port}), InsideOptions(address="127.0.0.1"))


def test_a_folder_that_others_may_use_is_left_alone(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="p") as short:  # paths of sockets are short
        monkeypatch.setattr(tempfile, "tempdir", short)
        taken = Path(short) / f"llmperf-inside-{os.getuid()}"
        taken.mkdir(mode=0o755)
        taken.chmod(0o755)
        folder = private_folder()
        assert folder == taken.with_name(f"{taken.name}-2")
        assert folder.stat().st_mode & 0o777 == 0o700
        assert private_folder() == folder
