"""Runs in a row on the same nodes."""

from __future__ import annotations

from types import SimpleNamespace

from llmperf.planning import nodes
from llmperf.planning.states import Site


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
