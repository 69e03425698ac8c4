"""The controller's side of a screening: asks all nodes for one stage after the other."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from llmperf import compact_hosts, convert
from llmperf.errors import UserError
from llmperf.types import ReachedNodes

from llmperf_screening.comparison import better, compared, faster, slow_pairs
from llmperf_screening.stages import TASK, Contact, Figure, Peer, ScreenAnswer, ScreenTask, checked_answer, short

ALL_PAIRS = 16
"""With more nodes, each measures with its two neighbours in a ring only."""

Pair = tuple[int, int]


def rounds(ranks: Sequence[int]) -> list[list[Pair]]:
    """Rounds of pairs, in which each node has at most one partner.

    Up to ALL_PAIRS nodes, each meets every other (the circle method of tournaments); more meet neighbours in a ring.
    """
    count = len(ranks)
    if count < 2:
        return []
    if count > ALL_PAIRS:
        edges = [(min(pair), max(pair)) for pair in ((ranks[i], ranks[(i + 1) % count]) for i in range(count))]
        even, odd, last = edges[0 : count - count % 2 : 2], edges[1::2], edges[count - 1 :] if count % 2 else []
        return [turn for turn in (even, odd, last) if turn]
    circle: list[int | None] = [*ranks, *([None] if count % 2 else [])]
    played = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        played.append([(min(a, b), max(a, b)) for a, b in pairs if a is not None and b is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return played


def partners(pairs: Sequence[Pair], count: int) -> tuple[tuple[int, ...], ...]:
    """The partners of each of `count` nodes."""
    known: list[list[int]] = [[] for _ in range(count)]
    for first, second in pairs:
        known[first].append(second)
        known[second].append(first)
    return tuple(map(tuple, known))


STAGE_SECONDS = 20.0
"""Time limit of the stages of the network, besides what they measure."""
CHECKS_SECONDS = 250.0
PAIR_SECONDS = 70.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """Everything that was measured on the nodes, by rank."""

    hosts: tuple[str, ...]
    figures: tuple[tuple[Figure, ...], ...]
    """Figures of the host and devices of each node."""
    contacts: tuple[tuple[Contact, ...], ...]
    """Reachability and latency of the other nodes, from each node."""
    transfers: tuple[tuple[Contact, ...], ...]
    """Transfers of each node with its partners, each pair at the node with the lower rank."""
    pairs: tuple[tuple[tuple[int, int], tuple[Figure, ...]], ...]
    """Figures of each two nodes: checks that they made together."""
    skipped: tuple[str, ...]
    """One line for each part that was left out."""
    problems: tuple[tuple[int, str], ...]
    """Rank of a node, and why a stage failed there, in one line."""
    seconds: float


class Screening:
    """One screening of nodes."""

    def __init__(self, nodes: ReachedNodes, together: bool) -> None:
        """`together`: also the checks that two nodes make together, whose libraries take seconds to start."""
        self._ask_all = nodes.ask
        self._together = together
        self._skipped: list[str] = []
        self._nodes = nodes.nodes
        self._problems: dict[int, str] = {}
        self._figures: list[list[Figure]] = [[] for _ in self._nodes]
        self._contacts: list[tuple[Contact, ...]] = [() for _ in self._nodes]
        self._transfers: list[list[Contact]] = [[] for _ in self._nodes]
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
        for rank, answer in self._ask_all(TASK, task, seconds).items():
            if rank in self._problems:
                continue
            try:
                if isinstance(answer, UserError):
                    raise answer
                where = f"node {self._nodes[rank].host}: screening"
                answers[rank] = checked_answer(convert(answer, ScreenAnswer, where), task, rank, where)
            except UserError as error:
                self._problems[rank] = short(str(error))
        return answers

    def _measure_hosts(self) -> None:
        """Nodes measure at the same time, but nodes that share a machine one after the other."""
        machines: dict[str, int] = {}
        turns: list[list[int]] = []
        for rank, node in enumerate(self._nodes):
            machine = node.machine or f"unknown {rank}"
            turn = machines[machine] = machines.get(machine, -1) + 1
            turns += [[]] * (turn == len(turns))
            turns[turn] = [*turns[turn], rank]
        devices = tuple(range(max((node.accelerators for node in self._nodes), default=0)))
        for ranks in turns:
            task = ScreenTask(stage="checks", ranks=tuple(ranks), devices=devices)
            for rank, answer in self._ask(task, CHECKS_SECONDS).items():
                self._figures[rank] += answer.figures
        for rank in sorted(
            {item.rank for item in compared(self._figures) if item.slow}
        ):  # a short disturbance does not last until the second time
            task = ScreenTask(stage="checks", ranks=(rank,), devices=devices)
            answer = self._ask(task, CHECKS_SECONDS).get(rank, ScreenAnswer())
            for figure in answer.figures:
                self._figures[rank] = [better(known, figure) for known in self._figures[rank]]

    def _measure_network(self) -> None:
        secret = secrets.token_hex(16)
        count = len(self._nodes)
        addresses = tuple(node.address if node.interface else "" for node in self._nodes)
        if unknown := [node.host for node in self._nodes if not node.interface]:
            where = f"node {compact_hosts(unknown)}: the network was not measured"
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
            on_cpu=not any(node.accelerators for node in self._nodes),
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
