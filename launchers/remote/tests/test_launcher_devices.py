"""A launcher may say how many devices a run gets on each node, as host files and batch systems do."""

import json

import pytest

SOURCE = """
import llmperf
from llmperf.types import Node

class Slots:
    name = "slots"

    def nodes(self, request):
        return [Node(host=f"node{number}", address="127.0.0.1", devices=number) for number in (1, 2)]

    def commands(self, nodes):
        return nodes

@llmperf.hookimpl
def llmperf_worker_env(plan):
    return llmperf.interface_variables(plan, "ACME_INTERFACE")

@llmperf.hookimpl
def llmperf_launchers():
    return [Slots()]
"""


@pytest.mark.slow
@pytest.mark.parametrize(("words", "devices"), [((), 1), (("--devices", "2"), 2), (("--set", "devices=2"), 2)])
def test_a_run_uses_the_fewest_devices_of_all_nodes(stub_site, install, ran, words, devices):
    install("llmperf-slots", "slots", SOURCE, role="extension")
    options = [
        "--vendor", "stub", "--framework", "stub", "--launcher", "slots", "--set", "nodes=2", "--set", "micro_batch=1",
    ]  # fmt: skip
    document = json.loads(ran(0, "plan", "default", *options, *words, "--json").out)
    assert document["plan"]["worker"]["layout"]["devices_per_node"] == devices


def test_plugins_lists_the_launchers_of_the_core_and_of_plugins(stub_site, install, ran):
    install("llmperf-slots", "slots", SOURCE, role="extension")
    rows = [row for row in json.loads(ran(0, "plugins", "--launchers", "--json").out) if row["role"] == "launcher"]
    owners = {row["name"]: (row["distribution"], row["state"]) for row in rows}
    assert owners["local"] == ("llmperf-core", "ok")
    assert owners["slots"] == ("llmperf-slots", "ok")


@pytest.mark.slow
def test_a_plan_names_the_nodes_of_its_devices(stub_site, install, ran):
    install("llmperf-slots", "slots", SOURCE, role="extension")
    options = ["--vendor", "stub", "--framework", "stub", "--launcher", "slots", "--set", "nodes=2"]
    text = ran(0, "plan", "default", *options, "--set", "micro_batch=1").out
    assert "on node[1-2])" in text
    assert "ACME_INTERFACE=lo (on node1; each node has its own)" in text
