"""What commands print about the nodes of a launcher."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click import unstyle
from llmperf.cli.nodes_doctor import _relative, _screening, _shown
from llmperf.cli.request import say_what_was_left_out
from llmperf.running.node_checks import CheckedNode, NodesCheck
from llmperf.screening.verdict import Verdict


@pytest.mark.parametrize(("codes", "shown"), [((), True), (("framework_unusable",), False)])
def test_differences_of_nodes_are_left_out_where_a_node_lacks_the_framework(capsys, codes, shown):
    outcome: Any = SimpleNamespace(
        machine=SimpleNamespace(left_out=(), concerns=("nodes differ in kernel: 1 on a; 2 on b",)),
        plugins=SimpleNamespace(left_out=()),
        problems=tuple(SimpleNamespace(code=code) for code in codes),
    )
    say_what_was_left_out(outcome)
    assert ("nodes differ in kernel" in capsys.readouterr().err) == shown


@pytest.mark.parametrize(
    ("failed", "line"), [(False, "no node stands out"), (True, "none of the other nodes stands out")]
)
def test_a_failed_node_is_not_among_those_of_which_none_stands_out(failed, line):
    found = Verdict(measured=(), slow=(), unreachable=(), not_measured=(), path_mtu=(), seconds=3.0)
    assert list(_screening(found, failed))[-1].startswith(line)


def test_where_no_node_answers_nothing_is_said_of_devices(capsys):
    nodes = (CheckedNode(host="a", failure="node a: no answer"), CheckedNode(host="b", failure="node b: no answer"))
    checked = NodesCheck(vendor=None, nodes=nodes, differences=(), concerns=(), verdict=None)
    assert [unstyle(line) for line in _shown(checked) if line] == [
        "error: node a: no answer",
        "error: node b: no answer",
    ]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("value", "text"), [(-0.12, "-12 %"), (0.5, "+50 %"), (531.4, "532 times")])
def test_large_differences_are_factors(value, text):
    assert _relative(value) == text
