"""Planted gaps of real runs of the default case on the CPU: `llmperf explain` names what was planted."""

import os
import subprocess
import sys
from math import log, prod

import pytest
from llmperf_estimate.explain import explained
from llmperf_estimate.explain_sides import side_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
KERNELS = {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A function that runs the default case, and returns its side."""
    folder = tmp_path_factory.mktemp("runs")

    def run(name, *words, **environment):
        argv = [sys.executable, "-m", "llmperf", "run", "default", "--vendor", "cpu", "--quiet", "--out", folder / name]
        done = subprocess.run([*map(str, argv), *words], env=os.environ | environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        [made] = (folder / name).iterdir()
        return side_of(str(made), print)

    return run


@pytest.fixture(scope="module")
def reference(trained):
    """The run without a plant, traced."""
    return trained("reference", "--trace", "3")


def named(found, cause):
    """The share of the gap that a cause has; 1 where others change too, but it and they are named."""
    if found.within_noise:
        pytest.skip(f"the machine is too busy to show a difference: {found.low:.2f} to {found.high:.2f}")
    logs = {each.cause: log(each.factor) for each in found.factors}
    assert prod(each.factor for each in found.factors) == pytest.approx(found.ratio)
    assert logs[cause] < log(0.95)
    # equal runs differ by as much here
    assert found.factors[-1].can_be_noise or abs(logs["unexplained"]) <= max(0.08, 0.1 * max(map(abs, logs.values())))
    disturbed = "host" in logs and cause != "host"  # by whatever else this machine does
    return 1 if disturbed or found.factors[-1].can_be_noise else logs[cause] / log(found.ratio)


def test_recomputation(trained, reference):
    run = trained("recomputation", "--trace", "3", "--set", "gradient_checkpointing=true")
    found = explained(run, reference)
    assert named(found, "recomputation") > 0
    factors = {each.cause: each.factor for each in found.factors}
    assert 0.65 < factors["recomputation"] < 0.92, found  # a forward pass more is 3/4, and less of other work


def test_a_kernel_path(trained, reference):
    found = explained(trained("kernels", "--trace", "3", **KERNELS), reference)
    assert named(found, "kernels") > 0.75  # 0.9 and more on a quiet machine
    assert any("MKL_ENABLE_INSTRUCTIONS unset -> SSE4_2" in each.evidence for each in found.factors)


def test_a_busy_machine(trained, reference):
    if (reference.number("other_cpu_share") or 0.0) > 0.2:
        pytest.skip("the machine was busy for the other side too")
    loop = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(loop) for _ in range(len(os.sched_getaffinity(0)) + 1)]
    try:
        run = trained("busy")
    finally:
        for process in loops:
            process.kill()
    found = explained(run, reference)
    assert named(found, "host") > 0.75


def test_an_estimate_of_a_real_run_multiplies_to_the_gap(reference):
    if reference.rates is None:
        pytest.skip("no rates were measured: the machine is busy")
    found = explained(reference, side_of("estimate", print, reference))
    assert prod(each.factor for each in found.factors) == pytest.approx(found.ratio)
