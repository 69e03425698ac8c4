"""Each member builds as a wheel, and the wheels work where nothing else of the workspace is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UV = os.environ.get("UV") or shutil.which("uv")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(UV is None, reason="needs uv, which builds the wheels and the bare environments"),
]


def call(*argv: str | Path, cwd: Path | None = None, expected: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command outside any environment of ours."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run([str(word) for word in argv], cwd=cwd, env=env, capture_output=True, text=True, timeout=800)
    assert done.returncode == expected, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    call(UV, "build", "--all-packages", "--wheel", "--out-dir", folder, "-q", ROOT)
    return folder


def environment(folder: Path, wheels: Path, members: tuple[str, ...], *requirements: str) -> Path:
    """A new environment with some members from their wheels; its `llmperf`."""
    call(UV, "venv", "-q", "--python", sys.executable, folder)
    chosen = [next(wheels.glob(f"{member.replace('-', '_')}-*.whl")) for member in members]
    call(UV, "pip", "install", "-q", "--python", folder / "bin" / "python", *chosen, *requirements)
    return folder / "bin" / "llmperf"


def test_every_member_builds(wheels):
    plugins = [path.parent for role in ("vendors", "frameworks") for path in ROOT.glob(f"{role}/*/pyproject.toml")]
    members = [*plugins, ROOT / "core", ROOT / "schemas"]
    assert len(list(wheels.glob("*.whl"))) == len(members)


def test_the_core_brings_the_pages_of_its_rules_and_the_published_results(wheels):
    with zipfile.ZipFile(next(wheels.glob("llmperf_core-*.whl"))) as wheel:
        names = wheel.namelist()
    for data, ending in (("rules", ".md"), ("published", "/published.json")):
        source = {"rules": ROOT / "docs" / "rules", "published": ROOT / "published"}[data]
        shipped = {name for name in names if name.startswith(f"llmperf/data/{data}/") and name.endswith(ending)}
        there = [path for path in source.rglob("*") if path.as_posix().endswith(ending)]
        assert shipped == {f"llmperf/data/{data}/{path.relative_to(source).as_posix()}" for path in there}
        assert there


def test_the_core_alone_works_without_torch_and_says_what_to_install(wheels, tmp_path):
    llmperf = environment(tmp_path / "env", wheels, ("llmperf-core", "llmperf-schemas", "llmperf-cpu"))
    assert not list((tmp_path / "env").glob("lib/*/site-packages/torch"))
    assert "default" in call(llmperf, "cases").stdout
    call(llmperf, "new", "vendor", "acme", cwd=tmp_path)
    assert (tmp_path / "llmperf-acme" / ".github" / "workflows" / "test.yml").is_file()
    assert json.loads(call(llmperf, "plugins", "--json").stdout)[0]["name"] == "cpu"
    plan = call(llmperf, "plan", "default", cwd=tmp_path, expected=2).stdout
    assert "2 ranks = TP1 x PP1 x DP2" in plan
    assert "uv sync --inexact  # in a clone of llmperf" in plan
    refused = call(llmperf, "run", "default", cwd=tmp_path, expected=2).stderr
    assert "uv sync --inexact  # in a clone of llmperf" in refused
    assert not (tmp_path / "runs").exists()


def test_frameworks_without_torch_are_refused_before_ranks_start(wheels, tmp_path):
    llmperf = environment(tmp_path / "env", wheels, ("llmperf-core", "llmperf-schemas", "llmperf-cpu"))
    frameworks = [next(wheels.glob(f"llmperf_{name}-*.whl")) for name in ("pytorch", "zero")]
    call(UV, "pip", "install", "-q", "--no-deps", "--python", llmperf.with_name("python"), *frameworks)
    for framework in ("pytorch", "zero"):
        told = call(llmperf, "run", "default", "--framework", framework, cwd=tmp_path, expected=2).stderr
        (line,) = [line for line in told.splitlines() if "tuning.framework" in line]
        assert "torch>=2.6" in line
        assert "uv pip install" in line
    assert "torch>=2.6" in call(llmperf, "doctor", expected=1).stdout
    assert not (tmp_path / "runs").exists()


def test_core_and_one_framework_train_from_wheels(wheels, tmp_path):
    members = ("llmperf-core", "llmperf-schemas", "llmperf-cpu", "llmperf-pytorch")
    pins = [f"{name}=={version(name)}" for name in ("torch", "transformers", "numpy")]
    llmperf = environment(tmp_path / "env", wheels, members, *pins)
    settings = ["--set", "steps=4", "--set", "warmup_steps=1", "--set", "model=llama_tiny", "--devices", "1"]
    call(llmperf, "run", "default", "--framework", "pytorch", *settings, cwd=tmp_path)
    (result,) = (tmp_path / "runs").glob("*/result.json")
    document = json.loads(result.read_text())
    assert document["status"] == "complete"
    assert document["metrics"]["tokens_per_second_per_device"] > 0
    call(llmperf, "validate", "runs", cwd=tmp_path)


def test_paddle_trains_where_there_is_no_torch(wheels, tmp_path):
    """Two ranks and a published case on a small model, from wheels: weights, tokens, device and peak without torch."""
    members = ("llmperf-core", "llmperf-schemas", "llmperf-cpu", "llmperf-paddle")
    pins = [f"{name}=={version(name)}" for name in ("paddlepaddle", "numpy", "setuptools")]
    llmperf = environment(tmp_path / "env", wheels, members, *pins)
    assert not list((tmp_path / "env").glob("lib/*/site-packages/torch"))
    assert "can run it by --framework paddle" in call(llmperf, "run", cwd=tmp_path, expected=2).stderr
    call(llmperf, "run", "llama1_7b_pretrain_paddle", "--set", "model=llama_tiny", cwd=tmp_path)
    (result,) = (tmp_path / "runs").glob("*/result.json")
    document = json.loads(result.read_text())
    assert (document["status"], document["variant"]) == ("complete", True)
    assert document["metrics"]["tokens_per_second_per_device"] > 0
    assert document["loss_curve"][-1]["loss"] < document["loss_curve"][0]["loss"]
    call(llmperf, "validate", "runs", cwd=tmp_path)
