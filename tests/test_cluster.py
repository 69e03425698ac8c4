"""Runs on two hosts, which are namespaces of this machine with SSH servers: what they learn, and how they end."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from llmperf_testing import hosts as namespaces
from llmperf_testing import ssh_servers

ROOT = Path(__file__).parents[1]
REASON = namespaces.missing() or ssh_servers.missing()
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.skipif(REASON is not None, reason=str(REASON))]


def benchmark(name, *words):
    command = [sys.executable, str(ROOT / "benchmarks" / name), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=580)


@pytest.mark.parametrize(
    "words",
    [("pytorch", "--devices", "1"), pytest.param(("baichuan2_13b_pretrain_zero",), marks=pytest.mark.long)],
    ids=" ".join,
)
def test_a_case_learns_on_two_hosts_what_it_learns_on_one(words):
    """DDP with one rank on each host; a published case with ZeRO-1 and two, on a small model."""
    done = benchmark("cluster_curves.py", "--only", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"^\| {words[0]} \| \d\.\de[+-]\d+ \|", done.stdout, re.MULTILINE), done.stdout


def test_a_host_that_cannot_be_reached_any_more_is_named_and_leaves_nothing():
    done = benchmark("cluster_faults.py", "--only", "link_down", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (outcome,) = json.loads(done.stdout)
    assert outcome["seconds"] <= 60
    assert outcome["left_seconds"] <= 60
    assert outcome["left"] == []
    assert "node 1 (node2)" in outcome["message"]
