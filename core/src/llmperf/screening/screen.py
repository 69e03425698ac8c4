"""The controller's side of a screening: asks all nodes for one stage after the other."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.planning.interfaces import compact
from llmperf.planning.node_report import NodeReport
from llmperf.screening.answers import checked_answer, short
from llmperf.screening.comparison import better, faster, slow_pairs, slow_ranks
from llmperf.screening.messages import TASK, Contact, Figure, Peer, ScreenAnswer, ScreenTask
from llmperf.screening.rounds import partners, rounds
from llmperf.types.launching import Node

STAGE_SECONDS = 20.0
"""Time limit of the stages of the network, besides what they measure."""
CHECKS_SECONDS = 250.0
PAIR_SECONDS = 70.0


class Asking(Protocol):
    """A conversation with the node programs of all nodes."""

    def ask(self, name: str, arguments: Mapping[str, object], seconds: float) -> dict[int, msgspec.Raw | UserError]:
        """The answer of each node, by rank."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """Everything that was measured on the nodes, by rank."""

    hosts: tuple[str, ...]
    figures: tuple[tuple[Figure, ...], ...]
    """Of each node: its host and devices."""
    contacts: tuple[tuple[Contact, ...], ...]
    """Of each node: whether it reaches the others, and how quickly."""
    transfers: tuple[tuple[Contact, ...], ...]
    """Of each node: with its partners, each pair at the node with the lower rank."""
    pairs: tuple[tuple[tuple[int, int], tuple[Figure, ...]], ...]
    """Of each two nodes: checks that they made together."""
    skipped: tuple[str, ...]
    """One line for each part that was left out."""
    problems: tuple[tuple[int, str], ...]
    """Rank of a node, and why a stage failed there, in one line."""
    seconds: float
    """How long it took."""


class Screening:
    """One screening of the nodes of a conversation."""

    def __init__(
        self, asking: Asking, nodes: Sequence[Node], reports: Sequence[NodeReport], vendor: str, together: bool
    ) -> None:
        """`nodes` have their interfaces; `vendor` is the plugin whose devices are measured.

        `together`: also the checks that two nodes make together, whose libraries take seconds to start.
        """
        self._asking = asking
        self._together = together
        self._skipped: list[str] = []
        self._nodes = nodes
        self._reports = reports
        probes = [next((probe for probe in report.probes if probe.vendor == vendor), None) for report in reports]
        self._accelerators = [
            0 if probe is None or probe.on_cpu or probe.simulated else len(probe.devices) for probe in probes
        ]
        self._problems: dict[int, str] = {}
        self._figures: list[list[Figure]] = [[] for _ in nodes]
        self._contacts: list[tuple[Contact, ...]] = [() for _ in nodes]
        self._transfers: list[list[Contact]] = [[] for _ in nodes]
        self._pairs: list[tuple[tuple[int, int], tuple[Figure, ...]]] = []

    def run(self) -> Screened:
        """Ask for all stages. A node that fails in one is left out of the following ones."""
        began = time.monotonic()
        self._measure_hosts()
        if len(self._nodes) > 1:
            self._measure_network()
        return Screened(
            hosts=tuple(node.host for node in self._nodes),
            figures=tuple(map(tuple, self._figures)),
            contacts=tuple(self._contacts),
            transfers=tuple(map(tuple, self._transfers)),
            pairs=tuple(self._pairs),
            skipped=tuple(self._skipped),
            problems=tuple(self._problems.items()),
            seconds=time.monotonic() - began,
        )

    def _ask(self, task: ScreenTask, seconds: float) -> dict[int, ScreenAnswer]:
        """The answers of the nodes that still take part; the reason is kept for others."""
        answers = {}
        for rank, answer in self._asking.ask(TASK, json_files.builtins(task), seconds).items():
            if rank in self._problems:
                continue
            try:
                if isinstance(answer, UserError):
                    raise answer
                where = f"node {self._nodes[rank].host}: screening"
                decoded = json_files.decode(bytes(answer), ScreenAnswer, where)
                answers[rank] = checked_answer(decoded, task, rank, where)
            except UserError as error:
                self._problems[rank] = short(str(error))
        return answers

    def _measure_hosts(self) -> None:
        """Nodes measure at the same time, but nodes that share a machine one after the other."""
        machines: dict[str, int] = {}
        turns: list[list[int]] = []
        for rank, report in enumerate(self._reports):
            machine = report.host.boot_id or f"unknown {rank}"
            turn = machines[machine] = machines.get(machine, -1) + 1
            turns += [[]] * (turn == len(turns))
            turns[turn] = [*turns[turn], rank]
        devices = tuple(range(max(self._accelerators, default=0)))
        for ranks in turns:
            task = ScreenTask(stage="checks", ranks=tuple(ranks), devices=devices)
            for rank, answer in self._ask(task, CHECKS_SECONDS).items():
                self._figures[rank] += answer.figures
        for rank in sorted(slow_ranks(self._figures)):  # a short disturbance does not last until the second time
            task = ScreenTask(stage="checks", ranks=(rank,), devices=devices)
            answer = self._ask(task, CHECKS_SECONDS).get(rank, ScreenAnswer())
            for figure in answer.figures:
                self._figures[rank] = [better(known, figure) for known in self._figures[rank]]

    def _measure_network(self) -> None:
        secret = secrets.token_hex(16)
        count = len(self._nodes)
        addresses = tuple(node.address if node.interface else "" for node in self._nodes)
        if unknown := [node.host for node in self._nodes if not node.interface]:
            where = f"node {compact(unknown)}: the network was not measured"
            self._skipped.append(f"{where}: no interface of the node has its address; --interface names one")
        listening = self._ask(ScreenTask(stage="listen", secret=secret, addresses=addresses), STAGE_SECONDS)
        peers = tuple(
            Peer(
                address=address,
                port=listening[rank].port if rank in listening else 0,
                free_port=listening[rank].free_port if rank in listening else 0,
            )
            for rank, address in enumerate(addresses)
        )
        schedule = rounds(sorted(rank for rank, answer in listening.items() if answer.port))
        meeting = [pair for pairs in schedule for pair in pairs]
        reach = ScreenTask(stage="reach", secret=secret, peers=peers, partners=partners(meeting, count))
        for rank, answer in self._ask(reach, STAGE_SECONDS).items():
            self._contacts[rank] = answer.contacts
        broken = {
            frozenset((rank, contact.peer))
            for rank, contacts in enumerate(self._contacts)
            for contact in contacts
            if contact.problem is not None
        }
        schedule = [[pair for pair in pairs if frozenset(pair) not in broken] for pairs in schedule]
        for number, pairs in enumerate(schedule):
            self._transfer(pairs, secret, peers, number)
        doubtful = slow_pairs(self._transfers)  # a short disturbance does not last until the second time
        for number, pairs in enumerate(schedule, len(schedule)):
            if again := [pair for pair in pairs if pair in doubtful]:
                self._transfer(again, secret, peers, number)
        for pairs in schedule if self._together else ():
            self._measure_together(pairs, peers)

    def _transfer(self, pairs: Sequence[tuple[int, int]], secret: str, peers: tuple[Peer, ...], number: int) -> None:
        """Transfers between the nodes of each pair, at the same time; of two transfers of a pair the faster counts."""
        usable = [pair for pair in pairs if not set(pair) & set(self._problems)]
        together = partners(usable, len(self._nodes))
        task = ScreenTask(stage="transfer", secret=secret, peers=peers, partners=together, number=number)
        for rank, answer in self._ask(task, STAGE_SECONDS).items():
            for contact in answer.contacts:
                if contact.sent_bytes_per_second is not None or contact.problem is not None:
                    known = {earlier.peer: earlier for earlier in self._transfers[rank]}
                    known[contact.peer] = faster(known.get(contact.peer), contact)
                    self._transfers[rank] = list(known.values())

    def _measure_together(self, pairs: Sequence[tuple[int, int]], peers: tuple[Peer, ...]) -> None:
        task = ScreenTask(
            stage="collective",
            peers=peers,
            partners=partners([pair for pair in pairs if not set(pair) & set(self._problems)], len(self._nodes)),
            interfaces=tuple(node.interface for node in self._nodes),
            on_cpu=not any(self._accelerators),
        )
        if not any(task.partners):
            return
        before = dict(self._problems)
        answers = self._ask(task, PAIR_SECONDS)
        self._skipped += [line for rank, line in self._problems.items() if rank not in before]
        self._problems = before  # ranks may reach one another all the same
        for first, second in pairs:
            if first in answers and second in answers:
                ends = (answers[first].figures, answers[second].figures)
                late = (figures for figures in ends if any(figure.timed_out for figure in figures))
                self._pairs.append(((first, second), next(late, ends[0])))
