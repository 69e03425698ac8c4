"""The launcher `inside`: every process of a job that another engine has started runs the same `llmperf run`.

Of the processes of a node, the first serves and the others wait. The first of node 0 lets the other nodes in and starts
the controller as its child; the first of each other node runs the commands that come from there. All end with the exit
code of the run.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from llmperf.errors import Interrupted, Terminated, UserError
from llmperf.launching import python_module
from llmperf.types import Node, NodeCommand, NodeRequest, Submission

from llmperf_inside.bridge import COMMAND, GATE
from llmperf_inside.gate import Gate, listen
from llmperf_inside.membership import InsideOptions, Membership, membership, options_of, user_environment
from llmperf_inside.peer import join, serve
from llmperf_inside.secret import meeting_file, publish, secret_of, withdraw
from llmperf_inside.siblings import Leader, follow

ADDRESSES = "LLMPERF_INSIDE_ADDRESSES"
"""The addresses of all nodes, for the controller."""


class InsideLauncher:
    """Joins processes that another engine has started."""

    name = "inside"

    def hand_over(self, submission: Submission, say: Callable[[str], None]) -> int | None:
        """None in the controller; every other process serves or waits, and returns the exit code of the run."""
        if GATE in os.environ:
            threading.Thread(target=_end_with_gate, args=(os.environ[GATE],), daemon=True).start()
            return None
        options, member = options_of(submission.request), membership(os.environ)
        if member.local_rank > 0:
            return follow(member, options.timeout_seconds)
        leader, code = Leader(member, options.timeout_seconds), 1
        try:
            if member.rank > 0:
                connection = join(member, options, submission.out, os.environ, say)
                code = serve(connection, user_environment(os.environ, member), say)
            else:
                code = _control(member, options, submission, say)
        except UserError:
            code = UserError.exit_code
            raise
        finally:
            leader.finish(code)
        return code

    def nodes(self, request: NodeRequest) -> Sequence[Node]:
        """The nodes that have joined, node 0 first."""
        options_of(request)
        if ADDRESSES not in os.environ:
            member = membership(os.environ)
            if member.nodes > 1:
                raise UserError(
                    "launcher 'inside': only a run knows the other nodes; to see a plan, name a machine with --on"
                )
            return [Node(host="localhost", address="127.0.0.1")]
        addresses = json.loads(os.environ[ADDRESSES])
        return [Node(host=address, address=address) for address in addresses]

    def commands(self, nodes: Sequence[NodeCommand]) -> Sequence[NodeCommand]:
        """The command of node 0 itself, and a bridge for each other node."""
        return [node if node.node_rank == 0 else _bridge(node) for node in nodes]


def _bridge(node: NodeCommand) -> NodeCommand:
    argv = python_module("llmperf_inside.bridge")
    command = json.dumps({"node": node.node_rank, "argv": node.argv, "env": dict(node.env)})
    return NodeCommand(node_rank=node.node_rank, host=node.host, argv=argv, env={COMMAND: command})


def _control(member: Membership, options: InsideOptions, submission: Submission, say: Callable[[str], None]) -> int:
    """Let the other nodes in, and run the controller as a child; returns its exit code."""
    path = meeting_file(submission.out, member.key)
    listener, secret, own = None, secrets.token_bytes(32), "127.0.0.1"
    user_secret = secret_of(os.environ)
    if member.nodes > 1:
        listener = listen(member, options)
        own, port = listener.getsockname()[:2]
        secret = publish(path, user_secret, own, port)
    gate = Gate(member, listener, secret)
    code = 1
    try:
        addresses = (own, *gate.wait_for_nodes(options.timeout_seconds, say))
        env = {
            **user_environment(os.environ, member),
            GATE: str(gate.open_bridges()),
            ADDRESSES: json.dumps(addresses),
        }
        argv = [*python_module("llmperf"), *submission.command]
        with subprocess.Popen(argv, env=env, start_new_session=True) as process:
            while True:
                try:
                    code = process.wait()
                    break
                except Interrupted:
                    process.send_signal(signal.SIGINT)
                except Terminated as ended:
                    process.send_signal(ended.number)
        code = code if code >= 0 else 128 - code
    except UserError:
        code = UserError.exit_code
        raise
    finally:
        gate.finish(code)
        withdraw(path)
    return code


def _end_with_gate(path: str) -> None:
    """End this process, the controller, when its parent is gone."""
    with socket.socket(socket.AF_UNIX) as sock, suppress(OSError):
        sock.connect(path)
        sock.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)
