"""Paddle's GPU build in an environment of its own, named by `--python`: what is planned there, and what is refused."""

import json
import venv
from pathlib import Path
from sysconfig import get_paths

import pytest

pytestmark = pytest.mark.slow

LEFT_OUT = ("torch", "paddle", "functorch", "deepspeed", "transformers", "nvidia", "triton")
"""How names in this environment's site-packages begin that an environment for Paddle on GPUs lacks."""
MODULE = """
import sys
if "llmperf.planning" in sys.modules:
    raise RuntimeError("imported to plan")
def is_compiled_with_cuda():
    return True
def set_device(place):
    raise SystemExit(f"{place} of {sys.executable}")
"""
CASE = ("llama1_7b_pretrain_paddle", "--set", "dataset=synthetic", "--python")


class Environments:
    """Makes environments with llmperf, what it needs, and a stand-in for a build of Paddle."""

    def __init__(self, folder):
        self.folder = folder

    def make(self, *builds, cuda="12.9"):
        """The folder of an environment with these distributions of Paddle and their versions."""
        folder = self.folder / "paddle-gpu"
        venv.EnvBuilder(symlinks=True).create(folder)
        (site,) = folder.glob("lib/python*/site-packages")
        for entry in Path(get_paths()["purelib"]).iterdir():
            if not entry.name.startswith(LEFT_OUT) or entry.name.startswith("nvidia_ml_py"):
                (site / entry.name).symlink_to(entry)
        for name, version in builds:
            info = site / f"{name.replace('-', '_')}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            (info / "top_level.txt").write_text("paddle\n")
            (site / "paddle" / "version").mkdir(parents=True, exist_ok=True)
            (site / "paddle" / "__init__.py").write_text(MODULE)
            text = f"full_version     = '{version}'\ncuda_version     = '{cuda}'\n"
            (site / "paddle" / "version" / "__init__.py").write_text(text)
        return folder


@pytest.fixture
def environments(machines, tmp_path, monkeypatch):
    """Eight A100s, and a folder whose `llmperf.toml` names the environment."""
    gpu = machines.describe(*[machines.A100_80] * 8)
    monkeypatch.setenv("FAKE_NVML", str(gpu))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(machines.library.parent))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "llmperf.toml"
    file.write_text('[environments]\npaddle-gpu = "./paddle-gpu"\n')
    file.chmod(0o600)
    return Environments(tmp_path)


def test_the_gpu_build_plans_and_its_interpreter_runs_the_ranks(environments, ran, monkeypatch):
    python = environments.make(("paddlepaddle-gpu", "3.3.1")) / "bin" / "python"
    monkeypatch.setattr("llmperf_paddle.installed.find_spec", lambda name: None)  # not in this environment
    monkeypatch.setattr("llmperf_paddle.installed.installed_builds", lambda: {})
    plan = json.loads(ran(0, "plan", *CASE, "paddle-gpu", "--json").out)["plan"]
    assert (plan["interpreter"]["path"], plan["interpreter"]["environment"]) == (str(python), "paddle-gpu")
    assert (plan["vendor"], plan["worker"]["needs"]["runtime"]) == ("nvidia", "paddle")
    assert (len(plan["probe"]["devices"]), plan["probe"]["offers"]["runtime_problems"]) == (8, {})
    small = ("--devices", "2", "--set", "model=llama_tiny", "--set", "seq_len=64")
    printed = ran(1, "run", *CASE, "paddle-gpu", *small)
    assert f"of {python}" in printed.out + printed.err
    (result,) = environments.folder.glob("runs/*/result.json")
    assert json.loads(result.read_text())["software"]["worker_environment"] == "paddle-gpu"


@pytest.mark.parametrize(
    ("builds", "lines"),
    [
        ([], ["framework 'paddle' (llmperf-paddle): expected Paddle 3.3 or later, found none", "[framework_unusable]"]),
        ([("paddlepaddle", "3.3.1")], ["paddle 3.3.1 is built without CUDA", "docs/drivers.md [runtime_unusable]"]),
    ],
)
def test_an_environment_without_a_paddle_for_gpus_is_refused_although_this_one_has_one(
    environments, ran, builds, lines
):
    environments.make(*builds, cuda="False")
    shown = ran(2, "run", *CASE, "paddle-gpu").err
    assert all(line in shown for line in lines), shown
    assert not (environments.folder / "runs").exists()
