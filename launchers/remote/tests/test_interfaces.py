"""Which network interface and address a node gets, and how its ranks learn of it."""

from dataclasses import replace
from pathlib import Path

import llmperf
import pytest
from llmperf.errors import UserError
from llmperf.launching.agent import rank_environment
from llmperf.types import Node
from llmperf_remote.host_facts import NetworkInterface, network_interfaces, with_interface

LO = NetworkInterface(name="lo", addresses=("127.0.0.1", "127.0.1.1", "::1"), up=True, mtu=65536)
ETH = NetworkInterface(name="eth0", addresses=("10.0.0.1", "fe80::1"), up=True, mtu=1500, megabits_per_second=1000)
IB = NetworkInterface(name="ib0", addresses=("192.168.7.1", "fd00::1"), up=True, mtu=2044)
BARE = NetworkInterface(name="eth1", addresses=("fe80::2",), up=False)
ALL = (LO, ETH, IB, BARE)


def placed(address, known_as=(), wanted=None, interface=None):
    given = Node(host="n1", address=address, interface=interface, devices=2, env={"A": "1"})
    node = with_interface(given, ALL, known_as, wanted)
    assert (node.host, node.devices, node.env) == ("n1", 2, {"A": "1"})
    return node.interface, node.address


def test_the_interface_is_the_holder_of_the_address_by_which_the_launcher_knows_the_node():
    assert placed("10.0.0.1") == ("eth0", "10.0.0.1")
    assert placed("n1", ("192.168.7.1",)) == ("ib0", "192.168.7.1")
    assert placed("127.0.0.1") == ("lo", "127.0.0.1")
    assert placed("n1", ("127.0.1.1", "10.0.0.1")) == ("eth0", "10.0.0.1")
    assert placed("n1", ("127.0.1.1",)) == (None, "n1")


def test_a_named_interface_gives_its_own_address():
    assert placed("10.0.0.1", wanted="ib0") == ("ib0", "192.168.7.1")
    assert placed("fd00::1", wanted="ib0") == ("ib0", "fd00::1")
    assert placed("n1", interface="eth0") == ("eth0", "10.0.0.1")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("ib1", "node n1: --interface: unknown interface 'ib1'; did you mean 'ib0'?"),
        ("wlan", "node n1: --interface: unknown interface 'wlan'; expected one of: eth0, eth1, ib0, lo"),
        ("eth1", "node n1: --interface: 'eth1' has no address; expected one of lo, eth0, ib0"),
    ],
)
def test_an_interface_that_a_node_lacks_is_refused(wanted, message):
    with pytest.raises(UserError) as error:
        placed("n1", wanted=wanted)
    assert str(error.value) == message


def test_this_host_has_a_loopback_interface():
    loopback = next(interface for interface in network_interfaces() if "127.0.0.1" in interface.addresses)
    assert loopback.loopback
    assert loopback.up
    assert loopback.mtu


def test_hosts_are_listed_in_ranges():
    assert llmperf.compact_hosts(["node01", "node02", "node03", "node07", "gpu"]) == "node[01-03,07], gpu"
    assert llmperf.compact_hosts(["10.0.0.9", "10.0.0.10"]) == "10.0.0.9, 10.0.0.10"
    assert llmperf.compact_hosts(["a9", "a10", "a11"]) == "a9, a[10-11]"


def test_each_node_fills_in_its_own_interface(stub_plan, monkeypatch):
    monkeypatch.setenv("ACME_IFNAME", "mine")
    plan = stub_plan()
    assert llmperf.interface_variables(plan, "GLOO_IFNAME") == {}
    layout = replace(plan.layout, nodes=3, devices_per_node=1)
    nodes = tuple(Node(host=name, address=f"10.0.0.{rank}", interface=interface)
                  for rank, (name, interface) in enumerate([("a", "eth0"), ("b", "ib0"), ("c", None)]))  # fmt: skip
    plan = replace(plan, nodes=nodes, worker=replace(plan.worker, layout=layout, rank_env={"HERE": "{address}/{rank}"}))
    plan = replace(plan, env=llmperf.interface_variables(plan, "GLOO_IFNAME", "ACME_IFNAME"))
    known = [rank_environment(Path("/run"), plan, node, 0, "10.0.0.0", 1) for node in range(3)]
    assert [environment.get("GLOO_IFNAME") for environment in known] == ["eth0", "ib0", None]
    assert [environment["ACME_IFNAME"] for environment in known] == ["mine"] * 3
    assert known[1]["HERE"] == "10.0.0.1/1"
