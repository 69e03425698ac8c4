"""A real Slurm of two nodes: steps, runs and jobs."""

import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ALLOCATION = ("salloc", "--quiet", "--nodes=2", "--exclusive", "--mem=0")
STEPS = str(Path(__file__).with_name("steps_program.py"))


def test_lines_of_steps_are_whole_and_gpus_are_those_of_the_job(idle_cluster):
    printed = idle_cluster.call(*ALLOCATION, "--gpus=4", sys.executable, STEPS, "node2", "node1")
    report = json.loads(printed.splitlines()[-1])
    assert report["addresses"] == ["10.77.13.12", "10.77.13.11"]
    for host, rank in (("node2", "0"), ("node1", "1")):
        assert report[host] == {
            "rank": int(rank),
            "good": 20_000,
            "other": [[rank, "first", "600001 0,1"], [rank, "long", 600_000, True], [rank, "rest", "last"]],
            "code": 0,
        }
