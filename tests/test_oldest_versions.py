"""The lowest versions that the packages claim train, and so do the newest, each in an environment made here.

Both download, the lowest torch 3 GB as it is published for CUDA alone. They run with LLMPERF_ALL_TESTS=1.
"""

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
MEMBERS = ("core", "schemas", "vendors/cpu", *(f"frameworks/{name}" for name in ("kit", "pytorch", "zero", "lora")))
TINY = ("model=llama_tiny", "dataset=synthetic", "seq_len=64", "global_batch=2", "steps=2", "warmup_steps=1")
RUNS = {
    "pytorch": ("default", "--framework", "pytorch", "--set", "sharding_stage=0"),
    "zero": ("default", "--framework", "zero"),
    "lora": ("llama2_7b_lora", "--framework", "lora"),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(UV is None, reason="needs uv, which makes the environments"),
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


def environment(folder, python, resolution, *pins):
    """A new environment with the members and one resolution of what they need; its `llmperf`."""
    call(UV, "venv", "-q", "--python", python, folder)
    members = [ROOT / member for member in MEMBERS]
    target = folder / "bin" / "python"
    # from outside the workspace, whose constraints name one version of each
    call(UV, "pip", "install", "-q", "--python", target, "--resolution", resolution, *members, *pins, cwd=folder)
    return folder / "bin" / "llmperf"


def trains(llmperf, folder, name):
    """Train with a framework on one rank; the packages that the result names."""
    settings = [word for setting in TINY for word in ("--set", setting)]
    done = call(llmperf, "run", *RUNS[name], "--devices", "1", *settings, "--json", cwd=folder)
    document = json.loads(done)["result"]
    assert document["status"] == "complete", document["failure"]
    return document["software"]["packages"]


def pythons():
    """This Python, and the lowest that is claimed if this machine has it."""
    claimed = "3.10"
    known = Path.home() / ".pyenv" / "versions"
    candidates = [shutil.which(f"python{claimed}"), *sorted(known.glob(f"{claimed}.*/bin/python"))]
    for candidate in candidates:
        version = ["-c", "import sys; print(sys.version_info[:2])"]
        if candidate and subprocess.run([candidate, *version], capture_output=True).stdout == b"(3, 10)\n":
            return {sys.executable, str(candidate)}
    return {sys.executable}


def test_the_newest_versions_train(tmp_path):
    llmperf = environment(tmp_path / "env", sys.executable, "highest")
    for name in RUNS:
        trains(llmperf, tmp_path, name)


@pytest.mark.parametrize("python", sorted(pythons()))
def test_the_lowest_versions_train(tmp_path, python):
    claimed = {
        "torch": lowest("llmperf-pytorch", "torch"),
        "transformers": lowest("llmperf-lora", "transformers"),
        "deepspeed": lowest("llmperf-zero", "deepspeed"),
        "peft": lowest("llmperf-lora", "peft"),
        "numpy": lowest("llmperf-core", "numpy"),
    }
    pins = [f"{package}=={claimed[package]}" for package in ("torch", "transformers")]
    llmperf = environment(tmp_path / "env", python, "lowest-direct", *pins)
    used = {}
    for name in RUNS:
        used |= trains(llmperf, tmp_path, name)
    for package, version in claimed.items():
        assert used[package].startswith(version)
