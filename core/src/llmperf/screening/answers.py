"""What a node may answer to a stage of the screening: what it was asked for, in short printable text."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from llmperf.errors import UserError
from llmperf.files.text import printable
from llmperf.screening.messages import Contact, Figure, ScreenAnswer, ScreenTask

T = TypeVar("T", Figure, Contact)

MAX_CHECKS = 128
"""Different checks in one answer."""
MAX_NAME = 100
"""Characters of the name or the unit of a check."""
MAX_REASON = 400
"""Characters of a reason."""
MAX_PORT = 65535


def checked_answer(answer: ScreenAnswer, task: ScreenTask, rank: int, where: str) -> ScreenAnswer:
    """The answer of a node with clean texts; UserError for one that does not fit to the task."""
    _check_ports(answer, task, rank, where)
    partners = task.partners[rank] if task.stage in ("reach", "transfer", "collective") else ()
    expects_figures = rank in task.ranks if task.stage == "checks" else task.stage == "collective" and bool(partners)
    if answer.figures and not expects_figures:
        raise UserError(f"{where}: figures: expected none in the stage {task.stage!r}, found {len(answer.figures)}")
    _check_figures(answer, task, where)
    expected = partners if task.stage in ("reach", "transfer") else ()
    peers = [contact.peer for contact in answer.contacts]
    if len(set(peers)) != len(peers) or not set(peers) <= set(expected):
        raise UserError(f"{where}: contacts: expected {list(expected)}, each once, found {peers!s:.80}")
    for contact in answer.contacts:
        if contact.peer < rank and (contact.sent_bytes_per_second, contact.received_bytes_per_second) != (None, None):
            raise UserError(f"{where}: contacts: expected the transfer rate from the node of the lower rank")
    return replace(
        answer,
        figures=tuple(_clean(figure) for figure in answer.figures),
        contacts=tuple(_clean(contact) for contact in answer.contacts),
    )


def short(text: str) -> str:
    """A reason that a node gives, without control characters."""
    return printable(text[:MAX_REASON])


def _clean(item: T) -> T:
    return item if item.problem is None else replace(item, problem=short(item.problem))


def _check_ports(answer: ScreenAnswer, task: ScreenTask, rank: int, where: str) -> None:
    most = MAX_PORT if task.stage == "listen" and task.addresses[rank] else 0
    for name, port in (("port", answer.port), ("free_port", answer.free_port)):
        if port > most:
            raise UserError(f"{where}: {name}: expected at most {most}, found {port}")


def _check_figures(answer: ScreenAnswer, task: ScreenTask, where: str) -> None:
    """Each check once for the host and for each device that the task names, with names that can be printed."""
    known: set[tuple[str, int | None]] = set()
    names: set[str] = set()
    for figure in answer.figures:
        for name, text in (("check", figure.check), ("unit", figure.unit)):
            if len(text) > MAX_NAME or not text.isprintable():
                expected = f"expected a printable text of at most {MAX_NAME} characters"
                raise UserError(f"{where}: {name}: {expected}, found {text[:MAX_NAME]!r}")
        if figure.device is not None and figure.device not in task.devices:
            raise UserError(
                f"{where}: {figure.check}: expected a device in {list(task.devices)}, found {figure.device}"
            )
        if (figure.check, figure.device) in known:
            raise UserError(f"{where}: {figure.check}: expected one figure for each device, found several")
        known.add((figure.check, figure.device))
        names.add(figure.check)
        if len(names) > MAX_CHECKS:
            raise UserError(f"{where}: figures: expected at most {MAX_CHECKS} checks, found more")
