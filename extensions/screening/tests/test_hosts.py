"""`llmperf doctor --launcher ssh` on three hosts in namespaces, of which one is slow and one is closed."""

import json
import shutil
import sys

import pytest
from llmperf_testing import hosts as namespaces
from llmperf_testing import ssh_servers

REASON = namespaces.missing() or ssh_servers.missing()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    pytest.mark.skipif(shutil.which("iptables") is None, reason="needs iptables"),
]


def test_a_slow_and_a_closed_node_are_named(tmp_path):
    with namespaces.Hosts(tmp_path / "hosts", count=3) as hosts:
        servers = ssh_servers.SshServers(hosts)
        (tmp_path / "llmperf.toml").write_text(f'[launchers.ssh]\nconfig = "{servers.config}"\n')
        slow = "tc qdisc add dev eth0 root tbf rate 20mbit burst 32kbit latency 50ms"
        hosts.nodes[1].run(*slow.split(), check=True)
        for rule in ("--dport 22 -j ACCEPT", "--syn -j DROP"):
            hosts.nodes[2].run("iptables", "-A", "INPUT", "-p", "tcp", *rule.split(), check=True)
        doctor = [sys.executable, "-P", "-m", "llmperf", "doctor", "--launcher", "ssh", "--vendor", "cpu"]
        done = hosts.controller.run(*doctor, "--hosts", "node1,node2,node3", "--json", cwd=tmp_path, timeout=380)
        assert done.returncode == 1, done.stderr
        checked = json.loads(done.stdout)
        assert [node["failure"] for node in checked["nodes"]] == [None] * 3
        assert [node["interface"]["name"] for node in checked["nodes"]] == ["eth0"] * 3
        assert [node["hostname"] for node in checked["nodes"]] == ["node1", "node2", "node3"]
        found = checked["verdict"]
        (line,) = [line for line in found["slow"] if line.startswith("node node2: sending is ")]
        assert int(line.split()[4]) >= 80
        assert found["unreachable"] == [
            "node node3: connections from node[1-2] fail: timed out; its ports are closed to other nodes"
        ]
        wrong = hosts.controller.run(
            *doctor, "--hosts", "node1,node2", "--interface", "ib0", "--no-screening", cwd=tmp_path
        )
        assert wrong.returncode == 1
        assert "error: node node1: --interface: unknown interface 'ib0'; expected one of: eth0, lo" in wrong.stdout
        twice = hosts.controller.run(*doctor, "--hosts", "node1,10.77.0.11", "--no-screening", cwd=tmp_path)
        assert (twice.returncode, twice.stderr) == (
            2,
            "llmperf: hosts node1 and 10.77.0.11: expected two machines, found one (node1) under two names; name it"
            " once\n",
        )


def test_a_network_that_drops_large_packets_refuses_the_run(tmp_path, monkeypatch):
    monkeypatch.delenv("LLMPERF_SCREENING", raising=False)
    with namespaces.Hosts(tmp_path / "hosts", count=2) as hosts:
        servers = ssh_servers.SshServers(hosts)
        (tmp_path / "llmperf.toml").write_text(f'[launchers.ssh]\nconfig = "{servers.config}"\n')
        for node, other in (hosts.nodes, hosts.nodes[::-1]):
            drop = f"-s {other.address} -m length --length 601:65535 -j DROP"
            node.run("iptables", "-A", "INPUT", *drop.split(), check=True)
        words = (
            "run default --vendor cpu --framework pytorch --launcher ssh --hosts node1,node2 --devices 1 --set nodes=2"
        )
        tiny = "--set model=llama_tiny --set seq_len=64 --set steps=8 --set warmup_steps=2 --set micro_batch=1"
        command = [sys.executable, "-P", "-m", "llmperf", *words.split(), *tiny.split(), "--no-preflight"]
        done = hosts.controller.run(*command, cwd=tmp_path, timeout=380)
        assert done.returncode == 2, done.stderr
        assert (
            "llmperf: node1 and node2: connections open, but no data arrives; large packets seem to be lost: check that"
            " the MTU" in done.stderr
        )
