"""Differences between nodes: which refuse a run, which are warnings, and how nodes are named."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from click import unstyle
from llmperf.cli.request import say_what_was_left_out
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.types import DeviceInfo, DeviceSample, Facts, InstalledPlugin, Node, Offers, Probe
from llmperf_remote.differences import (
    Clock,
    NodeReport,
    concerns,
    differences,
    lines,
    node_report,
    refuse_one_machine,
    usual_report,
)
from llmperf_remote.host_facts import NetworkInterface, host_facts

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


def difference_lines(reports):
    return [(difference.refuses, str(difference)) for difference in differences("acme", NODES, reports)]


def test_nodes_that_are_alike_have_none(alike):
    assert difference_lines(alike) == []
    assert list(concerns("acme", NODES, alike, {0: Clock(0.2, 0.1), 3: Clock(-0.9, 0.1)})) == []


def test_other_devices_and_another_python_refuse_a_run(alike):
    alike[0] = replace(alike[0], probes=devices(7), python_version="3.11.2")
    assert difference_lines(alike) == [
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
    assert difference_lines(alike) == [
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
    assert difference_lines(alike) == [(False, "framework 'acme': 1.0 on node[01-03]; none on node04")]
    alike[2] = replace(alike[2], host=replace(known, packages={"torch": "2.8"}))
    assert (False, "package torch: 2.9 on node[01-02]; 2.8 on node03") in difference_lines(alike)


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
