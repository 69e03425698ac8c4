"""Traces of trainers that use torch's own DistributedDataParallel and AdamW, and traces that cannot be right."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

TRACED = ("own", "views", "separate updates", "updates of lists")
REFUSED = {"on the host": "found 0; a trainer's tensors belong on the device", "alone": "between 2 data-parallel ranks"}


@pytest.fixture(scope="module")
def figures():
    program = Path(__file__).with_name("other_trainers.py")
    names = [*TRACED, *REFUSED]
    done = subprocess.run([sys.executable, str(program), *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return dict(zip(names, map(json.loads, lines), strict=True))


@pytest.mark.parametrize("name", TRACED)
def test_torchs_own_parts_are_traced(figures, name):
    assert figures[name]["wrong"] is None
    assert figures[name]["collectives"] == ["all_reduce"]
    assert figures[name]["waits"] == []


def test_an_optimizer_that_is_not_fused_is_traced_by_its_operations(figures):
    assert "aten.addcdiv_" in figures["separate updates"]["updates"]
    assert "aten._foreach_addcdiv_" in figures["updates of lists"]["updates"]


@pytest.mark.parametrize("name", REFUSED)
def test_a_trace_of_nearly_nothing_is_refused(figures, name):
    assert REFUSED[name] in figures[name]["wrong"]
