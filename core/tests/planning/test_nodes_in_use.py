"""Runs in a row on the same nodes."""

from types import SimpleNamespace

from llmperf.planning import nodes
from llmperf.planning.states import Site
from llmperf.types import Interpreter


def test_a_launcher_is_asked_for_nodes_once_for_runs_that_need_the_same(monkeypatch):
    events = []

    def reach(site, count):
        events.append(f"ask for {count}")
        return SimpleNamespace(nodes=count, close=lambda: events.append(f"give back {count}"))

    monkeypatch.setattr(nodes, "reach", reach)
    in_use, site = nodes.NodesInUse(), Site(launcher="ssh", launcher_options={"queue": "a"})
    for count in (1, 1, 2, 2):
        assert in_use.reach(site, count).nodes == count
    in_use.close()
    in_use.close()
    assert events == ["ask for 1", "give back 1", "ask for 2", "give back 2"]


def test_an_old_python_of_the_ranks_is_not_given_an_option_that_it_lacks():
    old, new = (Interpreter(path="/opt/python", version=version) for version in ("3.10.4", "3.11.0"))
    command = ("{python}", "-P", "-m", "train")
    assert nodes.by_interpreter(command, old) == ("{python}", "-m", "train")
    assert nodes.by_interpreter(command, new) == nodes.by_interpreter(command, None) == command
