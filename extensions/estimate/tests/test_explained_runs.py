"""Planted gaps of real runs of the default case on the CPU: `llmperf explain` names what was planted.

The runs need the machine for themselves: `.ci/run` has this file alone.
"""

import os
import subprocess
import sys
from math import log, prod

import pytest
from llmperf_estimate.explain import explained
from llmperf_estimate.explain_sides import side_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
KERNELS = {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "MKL_CBWR": "COMPATIBLE"}
TRACED = ("--trace", "3", "--repeat", "2")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, apart):
    """A function that runs the default case, and returns its side; the machine's rates are measured before."""
    folder = tmp_path_factory.mktemp("runs")

    def llmperf(*words, **environment):
        apart(0, *words, XDG_CACHE_HOME=str(folder / "cache"), **environment)

    def run(name, *words, **environment):
        llmperf("run", "default", "--vendor", "cpu", "--quiet", "--out", str(folder / name), *words, **environment)
        return side_of(str(folder / name), print)

    llmperf("peak", "--seconds", "0.05")
    return run


@pytest.fixture(scope="module")
def reference(trained):
    """The run without a plant, traced."""
    return trained("reference", *TRACED)


def gap(run, reference):
    """The gap explained, if it is larger than what other processes make of equal runs."""
    found = explained(run, reference)
    if found.within_noise:
        pytest.skip(f"other processes disturb these runs as much as the plant does: {found.ratio:.2f}")
    return found


def named(found, cause):
    """The share of the gap that a cause has; 1 where others change too, but it and they are named."""
    logs = {each.cause: log(each.factor) for each in found.factors}
    assert prod(each.factor for each in found.factors) == pytest.approx(found.ratio)
    assert logs[cause] < log(0.95)
    if "host" in logs and cause != "host":  # whatever else this machine does
        return 1
    assert abs(logs["unexplained"]) <= max(0.05, 0.1 * max(map(abs, logs.values())))  # equal runs differ by 5 % here
    return logs[cause] / log(found.ratio)


def test_recomputation(trained, reference):
    run = trained("recomputation", *TRACED, "--set", "gradient_checkpointing=true")
    found = gap(run, reference)
    factors = {each.cause: each.factor for each in found.factors}
    assert 0.65 < factors["recomputation"] < 0.92, found  # a forward pass more is 3/4, and less of other work
    assert named(found, "recomputation") > 0


def test_a_kernel_path(trained, reference):
    found = gap(trained("kernels", *TRACED, **KERNELS), reference)
    assert named(found, "kernels") > 0.9
    assert any("MKL_ENABLE_INSTRUCTIONS unset -> SSE4_2" in each.evidence for each in found.factors)


def test_a_busy_machine(trained, reference):
    loop = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(loop) for _ in range(len(os.sched_getaffinity(0)) + 1)]
    try:
        run = trained("busy")
    finally:
        for process in loops:
            process.kill()
    found = gap(run, reference)
    if found.ratio > 0.9:
        pytest.skip(f"the machine was as busy in the run without a plant: {found.ratio:.2f}")
    assert named(found, "host") > 0.9


def test_an_estimate_of_a_real_run_multiplies_to_the_gap(reference):
    if reference.rates is None:
        pytest.skip("no rates were measured: the machine is busy")
    found = explained(reference, side_of("estimate", print, reference))
    assert prod(each.factor for each in found.factors) == pytest.approx(found.ratio)
