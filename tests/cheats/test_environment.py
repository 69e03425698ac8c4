"""Cheats of the user's environment: what is run is honest, what it runs in is not."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from llmperf.files import json_files
from llmperf.results.run_result import build_result
from llmperf.runfolder.contents import read_run
from llmperf.runfolder.filenames import RESULT
from llmperf.validation.check import validate_path
from llmperf.validation.run_folder import recorded_findings
from llmperf_datasets.text import cached_tokens

from .levels import claims_beside, first_error

COMPILER = shutil.which("cc") or shutil.which("gcc")
CONTROLLER = Path(__file__).parents[2] / "core" / "tests" / "stub" / "run_controller.py"
SLOW_PYTHON = """
import time
real, real_ns = time.monotonic, time.monotonic_ns
time.monotonic, time.monotonic_ns = lambda: real() / 2, lambda: real_ns() // 2
counter = time.perf_counter
time.perf_counter = lambda: counter() / 2
"""


def median_with(plan, folder, **environment):
    """The median step of a run of the stub, whose steps take 0.1 s, and the codes of its findings.

    No error among the records but LP666, in runs long enough for it; the stub's model has no true figures.
    """
    json_files.save(folder / "plan.json", plan)
    command = [sys.executable, str(CONTROLLER), str(folder / "plan.json"), str(folder / "run")]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.stdout == "complete\n", done.stderr
    result = build_result(folder / "run")
    json_files.save(folder / "run" / RESULT, result)
    errors = {finding.code for finding in recorded_findings(read_run(folder / "run")) if finding.severity == "error"}
    assert errors <= {"LP666"}
    findings = (finding for file in validate_path(folder / "run" / RESULT) for finding in file.findings)
    return result.metrics.step_seconds.median, {finding.code for finding in findings}


def assert_rerun_is_slower(stub_plan, folder):
    """The same run with a true clock shows that the times in a folder are not."""
    (folder / "true").mkdir()
    median_with(stub_plan(steps=12, step_seconds=0.1), folder / "true")
    speed = claims_beside(folder / "run", folder / "true" / "run")["speed"]
    assert speed.outcome == "better", speed.message


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_clock_slowed_by_a_preloaded_library(stub_plan, tmp_path):
    """LD_PRELOAD slows the clock of llmperf, its agents and its ranks."""
    source, library = Path(__file__).with_name("slow_clock.c"), tmp_path / "slow.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    median, codes = median_with(stub_plan(steps=12, step_seconds=0.1), tmp_path, LD_PRELOAD=str(library))
    assert median < 0.095
    assert "LP655" in codes
    assert_rerun_is_slower(stub_plan, tmp_path)


@pytest.mark.slow
def test_clock_slowed_by_sitecustomize(stub_plan, tmp_path):
    """A sitecustomize on PYTHONPATH slows the clocks of every Python process."""
    (tmp_path / "sitecustomize.py").write_text(SLOW_PYTHON)
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    median, codes = median_with(stub_plan(steps=12, step_seconds=0.1), tmp_path, PYTHONPATH=path)
    assert median < 0.095
    assert "LP655" in codes
    assert_rerun_is_slower(stub_plan, tmp_path)


@pytest.mark.slow
def test_kept_peak_edited(forgery):
    """The peak of the host that the cache keeps is 0.6 times what it is."""
    peak = dict(forgery.plan["peak"])
    forgery.plan["peak"]["flops_per_second"] *= 0.6
    forgery.documents["ending.json"]["peak_again"] = peak  # as llmperf measures it after a run of some seconds
    folder = forgery.seal()
    assert first_error(folder) is None
    mfu = json.loads((folder / "result.json").read_text())["mfu"][0]
    assert mfu["peak_flops_per_second"] == peak["flops_per_second"] * forgery.plan["device_share"]  # nothing is gained

    def lowered(result):
        for mfu in result["mfu"]:
            mfu["peak_flops_per_second"] *= 0.6
            mfu["value"] /= 0.6

    assert first_error(forgery.seal(lowered)).code == "LP658"


@pytest.mark.slow
def test_known_model_replaced(forgery):
    """A model file of the user has the name of a known model and fewer layers."""
    forgery.plan["spec"]["model"]["layers"] = 3
    assert first_error(forgery.seal()).code in ("LP303", "LP304", "LP607")


def test_kept_tokens_zeroed(tmp_path, monkeypatch):
    """The tokens that the cache keeps are all zeros, which are learnt at once."""
    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path))

    def tokens():
        return cached_tokens(["text"], "<u2", lambda: [np.arange(1000)])

    path = tokens().filename
    Path(path).write_bytes(bytes(2000))
    assert tokens().tolist() == list(range(1000))
