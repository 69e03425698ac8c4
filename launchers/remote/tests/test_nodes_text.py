"""What commands print about the nodes of a launcher."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click import unstyle
from llmperf.cli.request import say_what_was_left_out
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf_remote.differences import lines
from llmperf_remote.reports import NodeReport, node_report


@pytest.mark.parametrize(("codes", "said"), [((), True), (("framework_unusable",), False)])
def test_differences_of_nodes_are_left_out_where_a_node_lacks_the_framework(capsys, codes, said):
    outcome: Any = SimpleNamespace(
        machine=SimpleNamespace(left_out=(), concerns=("nodes differ in kernel: 1 on a; 2 on b",)),
        plugins=SimpleNamespace(left_out=()),
        problems=tuple(SimpleNamespace(code=code) for code in codes),
    )
    say_what_was_left_out(outcome)
    assert ("nodes differ in kernel" in capsys.readouterr().err) == said


def test_where_no_node_answers_nothing_is_said_of_devices(capsys):
    nodes = [{"failure": "node a: no answer"}, {"failure": "node b: no answer"}]
    checked = {"vendor": None, "nodes": nodes, "differences": [], "concerns": []}
    assert [unstyle(line) for line in lines(checked)] == ["error: node a: no answer", "error: node b: no answer"]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("address", ["not-an-ip", "fe80::1%\x1b[2J", "10.0.0.1/8"])
def test_a_report_with_a_false_address_names_its_node(address):
    report = json_files.builtins(node_report("cpu", None))
    report["host"]["interfaces"] = [{"name": "eth0", "addresses": [address], "up": True}]
    with pytest.raises(UserError, match=r"^node bad: .*interfaces") as caught:
        json_files.decode(json_files.encode(report), NodeReport, "node bad: python")
    assert str(caught.value).isprintable()
