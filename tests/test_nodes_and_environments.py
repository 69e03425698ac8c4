"""Real training on two nodes of one machine, and by the Python of another environment than llmperf's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UV = os.environ.get("UV") or shutil.which("uv")
SMALL = ("--set", "steps=6", "--set", "warmup_steps=2", "--set", "model=llama_tiny", "--set", "seq_len=64")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(program, *words, cwd, expected=0, **environment):
    """What `llmperf run default` with these words prints and leaves."""
    hidden = {"VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    argv = [*map(str, program), "run", "default", *SMALL, *words, "--json"]
    done = subprocess.run(argv, cwd=cwd, env={**kept, **environment}, capture_output=True, text=True, timeout=500)
    assert done.returncode == expected, done.stderr
    return json.loads(done.stdout)["result"] if expected == 0 else done.stderr


@pytest.fixture
def pair(tmp_path, announced):
    """The folder from which the launcher `pair` is installed."""
    site = tmp_path / "site"
    announced(site, "llmperf-pair", extension="pair = llmperf_pair")
    shutil.copy(ROOT / "launchers" / "remote" / "tests" / "llmperf_pair.py", site)
    return site


@pytest.mark.long
def test_two_nodes_learn_what_one_node_learns(pair, tmp_path):
    llmperf = [sys.executable, "-m", "llmperf"]
    words = ("--framework", "pytorch", "--vendor", "cpu")
    one = run(llmperf, *words, "--devices", "2", cwd=tmp_path)
    nodes = ("--launcher", "pair", "--set", "nodes=2", "--devices", "1")
    two = run(llmperf, *words, *nodes, cwd=tmp_path, PYTHONPATH=str(pair))
    assert (two["status"], two["parallelism"]["nodes"], two["parallelism"]["data_parallel"]) == ("complete", 2, 2)
    losses = [[point["loss"] for point in result["loss_curve"]] for result in (one, two)]
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)


@pytest.mark.skipif(UV is None, reason="needs uv, which makes the other environment")
def test_a_controller_without_torch_trains_by_another_environment(tmp_path):
    """The controller's environment has the plugin alone; the tests' own environment has torch too."""
    folder = tmp_path / "bare"
    subprocess.run([UV, "venv", "-q", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    install = [UV, "pip", "install", "-q", "--python", python]
    subprocess.run([*install, "-e", ROOT / "core", "-e", ROOT / "schemas"], check=True)
    plugins = (ROOT / name for name in ("vendors/cpu", "frameworks/kit", "frameworks/pytorch"))
    subprocess.run([*install, "--no-deps", *plugins], check=True)
    (tmp_path / "llmperf.toml").write_text(f'[environments]\ntorch = "{sys.executable}"\n')
    llmperf = [folder / "bin" / "llmperf"]
    refused = run(llmperf, "--framework", "pytorch", cwd=tmp_path, expected=2)
    assert "torch" in refused
    assert not (tmp_path / "runs").exists()
    result = run(llmperf, "--framework", "pytorch", "--devices", "2", "--python", "torch", cwd=tmp_path)
    assert result["status"] == "complete"
    assert result["software"]["worker_environment"] == "torch"
    assert "torch" in result["software"]["packages"]
