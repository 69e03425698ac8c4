"""Answers of nodes to the screening that do not fit to what they were asked."""

from __future__ import annotations

import json
import re
import statistics
import time
from dataclasses import dataclass

import pytest
from llmperf import encode_pretty
from llmperf.types import ReachedNode
from llmperf_screening.comparison import compared
from llmperf_screening.screen import Screening
from llmperf_screening.stages import Contact, Figure, ScreenAnswer
from llmperf_screening.verdict import Verdict, verdict


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


def test_many_figures_of_one_check_are_compared_quickly():
    figures = [[figure(value=float(place % 97), device=place) for place in range(20_000)]]
    began = time.monotonic()
    assert len(list(compared(figures))) == 20_000
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
def test_a_figure_is_compared_with_the_median_of_the_others(count):
    values = [float(value) for value in (5, 1, 4, 1, 9, 2)[:count]]
    items = list(compared([[figure(value=value)] for value in values]))
    for place, item in enumerate(items):
        rest = values[:place] + values[place + 1 :]
        assert item.others == (statistics.median(rest) if rest else None)
