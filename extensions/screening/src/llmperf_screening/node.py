"""The node's side of a screening: a port for the other nodes, and a process that measures."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from llmperf import convert, encode_pretty
from llmperf.errors import UserError
from llmperf.launching import python_module
from llmperf.types import PairEnd

from llmperf_screening.network import Listener, contact, free_port, transfer_as_client, transfer_as_server
from llmperf_screening.stages import CheckRequest, Contact, Figure, ScreenAnswer, ScreenTask

CHECKS_SECONDS = 120.0
"""Time limit of the checks of a host with all its devices; the first one imports their libraries."""
PAIR_SECONDS = 60.0
"""Time limit of the checks of two nodes together."""
CONTACTS_AT_ONCE = 16


class NoAnswer(UserError):
    """The process that measures gave no answer in time."""


class NodeScreening:
    """One screening on one node; its stages are asked for one after the other."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._address = ""
        self._secret = ""
        self._listener: Listener | None = None
        self._measuring: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """End everything that was started."""
        if self._listener is not None:
            self._listener.close()
        if self._measuring is not None:
            with suppress(OSError):
                self._measuring.kill()
            self._measuring.wait()
            self._measuring = None

    def answer(self, arguments: Mapping[str, Any]) -> ScreenAnswer:
        """Do one stage; UserError if it cannot be done."""
        task = convert(arguments, ScreenTask, "request of the controller")
        if task.stage == "listen":
            self._address, self._secret = task.addresses[self._rank], task.secret
            if not self._address:
                return ScreenAnswer()
            self._listener = Listener(self._address, task.secret)
            return ScreenAnswer(port=self._listener.port, free_port=free_port(self._address))
        if task.stage == "checks":
            return ScreenAnswer(figures=self._checks(task))
        partners = task.partners[self._rank]
        if task.stage == "reach":
            with ThreadPoolExecutor(CONTACTS_AT_ONCE) as pool:
                reached = [
                    pool.submit(contact, rank, task.peers[rank], self._address, self._secret) for rank in partners
                ]
                return ScreenAnswer(contacts=tuple(each.result() for each in reached))
        if not partners:
            return ScreenAnswer()
        if task.stage == "collective":
            return ScreenAnswer(figures=self._together(task, partners[0]))
        return ScreenAnswer(contacts=(self._transfer(task, partners[0]),))

    def _checks(self, task: ScreenTask) -> tuple[Figure, ...]:
        if self._rank not in task.ranks:
            return ()
        figures = self._measured(CheckRequest(scope="host"), CHECKS_SECONDS)
        if task.devices:
            figures += self._measured(CheckRequest(scope="device", devices=task.devices), CHECKS_SECONDS)
        return figures

    def _transfer(self, task: ScreenTask, partner: int) -> Contact:
        if self._listener is None:
            raise UserError("transfer: this node does not listen")
        if self._rank < partner:
            peer = task.peers[partner]
            return transfer_as_client(partner, peer, self._address, self._secret, task.number, self._rank)
        return transfer_as_server(self._listener, partner, task.number)

    def _together(self, task: ScreenTask, partner: int) -> tuple[Figure, ...]:
        first = min(self._rank, partner)
        end = PairEnd(
            rank=int(self._rank > partner),
            address=task.peers[first].address,
            port=task.peers[first].free_port,
            interface=task.interfaces[self._rank],
            on_cpu=task.on_cpu,
        )
        try:
            return self._measured(CheckRequest(scope="pair", pair=end), PAIR_SECONDS)
        except NoAnswer as error:
            return (Figure(check="checks of two nodes", unit="", value=None, problem=str(error), timed_out=True),)

    def _measured(self, request: CheckRequest, seconds: float) -> tuple[Figure, ...]:
        """The answer of the process that measures, which is started when it is first needed."""
        if self._measuring is None:
            self._measuring = subprocess.Popen(
                python_module("llmperf_screening.measure"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
        process = self._measuring
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(encode_pretty(request, indent=0))
            line = _line(process.stdout.fileno(), seconds)
        except OSError:
            line = b""
        if not line:
            code = process.poll()
            self._measuring = None
            with suppress(OSError):
                process.kill()
            process.wait()
            reason = f"gave no answer within {seconds:g} s" if code is None else f"ended with exit status {code}"
            raise (NoAnswer if code is None else UserError)(f"screening: the process that measures {reason}")
        return convert(json.loads(line), tuple[Figure, ...], "screening")


def _line(descriptor: int, seconds: float) -> bytes:
    """A line that a process prints; empty if it ends or the time is over."""
    deadline, data = time.monotonic() + seconds, b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while not data.endswith(b"\n"):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return b""
            piece = os.read(descriptor, 2**16)
            if not piece:
                return b""
            data += piece
    return data
