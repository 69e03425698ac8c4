"""The lowest versions that the packages claim train, and so do the newest, each in an environment made here.

The lowest torch is published as a build for CUDA alone, 3 GB with what it needs. The other test
takes a torch that is published for CPUs, with the lowest versions of everything else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UV = os.environ.get("UV") or shutil.which("uv")
MEMBERS = ("core", "schemas", "vendors/cpu", "frameworks/pytorch", "frameworks/zero", "frameworks/lora")
CPU_TORCH = "2.13.0"
REQUESTED = "LLMPERF_TEST_LOWEST_TORCH"
"""Variable: set to run these tests."""
TINY = ("model=llama_tiny", "dataset=synthetic", "seq_len=64", "steps=4", "warmup_steps=1")
RUNS = {
    "pytorch": ("default", "--framework", "pytorch", "--devices", "2", "--set", "sharding_stage=0"),
    "zero": ("default", "--framework", "zero", "--devices", "2"),
    "lora": ("llama2_7b_lora",),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(UV is None, reason="needs uv, which makes the environments"),
    pytest.mark.skipif(not os.environ.get(REQUESTED), reason=f"on request: {REQUESTED}=1, downloads 0.3 to 3 GB"),
]


def lowest(distribution, package):
    """The lowest version of a package that a distribution claims."""
    (line,) = [line for line in requires(distribution) or [] if re.match(rf"{package}\b", line)]
    return re.search(r">=\s*([0-9.]+)", line)[1]


def call(*argv, cwd=None):
    """Run a command outside any environment of ours."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env["LLMPERF_SCREENING"] = "0"
    done = subprocess.run([str(word) for word in argv], cwd=cwd, env=env, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, f"{argv}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def environment(folder, resolution, *pins):
    """A new environment with the members and one resolution of what they need; its `llmperf`."""
    call(UV, "venv", "-q", "--python", sys.executable, folder)
    members = [ROOT / member for member in MEMBERS]
    python = folder / "bin" / "python"
    # from outside the workspace, whose constraints name one version of each
    call(UV, "pip", "install", "-q", "--python", python, "--resolution", resolution, *members, *pins, cwd=folder)
    return folder / "bin" / "llmperf"


def trains(llmperf, folder, name):
    """Train with a framework; the packages that the result names."""
    settings = [word for setting in TINY for word in ("--set", setting)]
    document = json.loads(call(llmperf, "run", *RUNS[name], *settings, "--json", cwd=folder))["result"]
    assert document["status"] == "complete", document["failure"]
    return document["software"]["packages"]


def test_the_lowest_versions_train_with_a_torch_for_cpus(tmp_path):
    pins = [f"torch=={CPU_TORCH}", f"transformers=={lowest('llmperf-pytorch', 'transformers')}"]
    llmperf = environment(tmp_path / "env", "lowest-direct", *pins)
    used = {}
    for name in ("zero", "lora"):
        used |= trains(llmperf, tmp_path, name)
    assert used["deepspeed"].startswith(lowest("llmperf-zero", "deepspeed"))
    assert used["peft"].startswith(lowest("llmperf-lora", "peft"))
    assert used["numpy"].startswith(lowest("llmperf-core", "numpy"))


@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_the_lowest_torch_and_the_newest_of_everything_train(tmp_path, resolution):
    pins = []
    if resolution == "lowest-direct":
        pins = [f"torch=={lowest('llmperf-pytorch', 'torch')}"]
        pins += [f"transformers=={lowest('llmperf-pytorch', 'transformers')}"]
    llmperf = environment(tmp_path / "env", resolution, *pins)
    for name in RUNS:
        used = trains(llmperf, tmp_path, name)
    if pins:
        assert used["torch"].startswith(lowest("llmperf-pytorch", "torch"))
