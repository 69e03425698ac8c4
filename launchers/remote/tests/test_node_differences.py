"""Differences between nodes: which refuse a run, which are warnings, and how nodes are named."""

from dataclasses import replace

import pytest
from llmperf.errors import UserError
from llmperf.types import DeviceInfo, DeviceSample, Facts, InstalledPlugin, Node, Offers, Probe
from llmperf_remote.differences import concerns, differences, refuse_one_machine, usual_report
from llmperf_remote.host_facts import NetworkInterface, host_facts
from llmperf_remote.reports import Clock, NodeReport

OFFERS = Offers(precisions=("fp32",), runtimes=("torch",), collective_backend="gloo")
ETH = NetworkInterface(name="eth0", addresses=("10.0.0.1",), up=True, mtu=9000)
NODES = [Node(host=f"node{rank:02d}", address="10.0.0.1", interface="eth0") for rank in range(1, 5)]


def devices(count):
    known = tuple(DeviceInfo(index=index, model="Acme A1", memory_bytes=2**34) for index in range(count))
    return (Probe(vendor="acme", devices=known, offers=OFFERS, driver="1.0"),)


@pytest.fixture
def alike():
    plugins = tuple(
        InstalledPlugin(role=role, name="acme", distribution="llmperf-acme", version="1.0", problem=None)
        for role in ("vendor", "framework")
    )
    host = replace(host_facts(Facts()), interfaces=(ETH,), temporary_free_bytes=2**40)
    report = NodeReport(
        llmperf_version="1", python_version="3.12.3", plugins=plugins, probes=devices(8), left_out=(), samples={},
        host=host,
    )  # fmt: skip
    return [report] * 4


def lines(reports):
    return [(difference.refuses, str(difference)) for difference in differences("acme", NODES, reports)]


def test_nodes_that_are_alike_have_none(alike):
    assert lines(alike) == []
    assert list(concerns("acme", NODES, alike, {0: Clock(0.2, 0.1), 3: Clock(-0.9, 0.1)})) == []


def test_other_devices_and_another_python_refuse_a_run(alike):
    alike[0] = replace(alike[0], probes=devices(7), python_version="3.11.2")
    assert lines(alike) == [
        (True, "Python: 3.12.3 on node[02-04]; 3.11.2 on node01"),
        (True, "devices: 8 x Acme A1 on node[02-04]; 7 x Acme A1 on node01"),
    ]
    assert usual_report(alike) is alike[1]


def test_other_differences_are_warnings(alike):
    host = replace(
        alike[2].host, kernel="Linux 5.4", interfaces=(replace(ETH, mtu=1500),), packages={"acme": "2"},
        environment={"ACME_MODE": "loud"},
    )  # fmt: skip
    alike[2] = replace(alike[2], host=host, plugins=alike[2].plugins[:1])
    kernel = alike[0].host.kernel
    assert lines(alike) == [
        (False, "MTU: 9000 on node[01-02,04]; 1500 on node03"),
        (False, "framework 'acme': 1.0 on node[01-02,04]; none on node03"),
        (False, f"kernel: {kernel} on node[01-02,04]; Linux 5.4 on node03"),
        (False, "package acme: none on node[01-02,04]; 2 on node03"),
        (False, "variable ACME_MODE: none on node[01-02,04]; 'loud' on node03"),
    ]


def test_packages_that_the_plugins_of_a_node_do_not_name_are_unknown_there(alike):
    known = replace(alike[0].host, packages={"torch": "2.9"}, environment={"TORCH_MODE": "1"})
    alike[:3] = [replace(report, host=known) for report in alike[:3]]
    alike[3] = replace(alike[3], plugins=alike[3].plugins[:1])
    assert lines(alike) == [(False, "framework 'acme': 1.0 on node[01-03]; none on node04")]
    alike[2] = replace(alike[2], host=replace(known, packages={"torch": "2.8"}))
    assert (False, "package torch: 2.9 on node[01-02]; 2.8 on node03") in lines(alike)


def test_one_host_under_two_names_is_refused(alike):
    hosts = [replace(report.host, boot_id=str(place), hostname=f"gpu{place}") for place, report in enumerate(alike)]
    refuse_one_machine(NODES, [replace(alike[0], host=host) for host in hosts])
    pod = replace(ETH, addresses=("10.0.0.9",))
    apart = [replace(hosts[0], hostname=f"pod{place}", interfaces=(pod,)) for place in range(4)]
    refuse_one_machine(NODES, [replace(alike[0], host=host) for host in apart])
    hosts[3] = hosts[1]
    with pytest.raises(UserError) as refused:
        refuse_one_machine(NODES, [replace(alike[0], host=host) for host in hosts])
    assert str(refused.value) == (
        "hosts node02 and node04: expected two machines, found one (gpu1) under two names; name it once"
    )


def test_what_disturbs_single_nodes(alike):
    busy = DeviceSample(index=3, memory_used_bytes=2**30, memory_total_bytes=2**34, process_ids=(7, 8))
    alike[1] = replace(alike[1], samples={"acme": (busy,)})
    alike[2] = replace(alike[2], host=replace(alike[2].host, temporary_free_bytes=2**20, temporary_folder="/var/tmp"))
    assert list(concerns("acme", NODES, alike, {2: Clock(1.5, 0.8), 3: Clock(3600.0, 0.1)})) == [
        "node node02: device 3 is busy: 2 processes compute on it",
        "node node03: /var/tmp has 1 MiB free; expected 256 MiB or more for the records and logs of a run",
        "node node04: its clock is 3600.0 s ahead of this machine's",
    ]
