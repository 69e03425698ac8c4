"""Runs in a row on the same nodes."""

from __future__ import annotations

from types import SimpleNamespace

from llmperf.planning import nodes
from llmperf.types.launching import NodeRequest


def test_a_launcher_is_asked_for_nodes_once_for_runs_that_need_the_same(monkeypatch):
    events = []

    def machine_of(vendor, launcher, request, *_):
        events.append(f"ask for {request.nodes}")
        return SimpleNamespace(nodes=request.nodes, close=lambda: events.append(f"give back {request.nodes}"))

    monkeypatch.setattr(nodes, "machine_of", machine_of)
    in_use = nodes.NodesInUse()
    for count in (1, 1, 2, 2):
        request = NodeRequest(nodes=count, devices=None, hosts=(), options={"queue": "a"})
        assert in_use.machine_of(None, "ssh", request, None).nodes == count
    in_use.close()
    in_use.close()
    assert events == ["ask for 1", "give back 1", "ask for 2", "give back 2"]
