"""Each member builds as a wheel, and the wheels work where nothing else of the workspace is."""

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


def call(*argv, cwd=None, expected=0):
    """Run a command outside any environment of ours."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run([str(word) for word in argv], cwd=cwd, env=env, capture_output=True, text=True, timeout=800)
    assert done.returncode == expected, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    call(UV, "build", "--all-packages", "--wheel", "--out-dir", folder, "-q", ROOT)
    return folder


def environment(folder, wheels, members, *requirements):
    """A new environment with some members from their wheels; its `llmperf`."""
    call(UV, "venv", "-q", "--python", sys.executable, folder)
    chosen = [next(wheels.glob(f"{member.replace('-', '_')}-*.whl")) for member in members]
    call(UV, "pip", "install", "-q", "--python", folder / "bin" / "python", *chosen, *requirements)
    return folder / "bin" / "llmperf"


def members():
    """The folder of every distribution."""
    roles = ("vendors", "frameworks", "extensions", "launchers")
    plugins = [path.parent for role in roles for path in ROOT.glob(f"{role}/*/pyproject.toml")]
    return [*plugins, ROOT / "core", ROOT / "schemas", ROOT / "testing"]


def contents(wheels, name):
    with zipfile.ZipFile(next(wheels.glob(f"{name}-*.whl"))) as wheel:
        return wheel.namelist()


def test_every_member_builds_and_says_that_it_has_types(wheels):
    built = sorted(path.name.split("-")[0] for path in wheels.glob("*.whl"))
    assert len(built) == len(members())
    for name in built:
        package = "llmperf" if name == "llmperf_core" else name
        assert f"{package}/py.typed" in contents(wheels, name)


def test_wheels_bring_the_pages_of_rules_and_the_published_results(wheels):
    assert "llmperf/data/rules.toml" in contents(wheels, "llmperf_core")
    published = [name for name in contents(wheels, "llmperf_published") if name.endswith("/published.json")]
    assert len(published) == len(list(ROOT.glob("extensions/published/src/*/data/*/published.json"))) > 0


def test_the_core_alone_works_without_torch_and_says_what_to_install(wheels, tmp_path):
    llmperf = environment(tmp_path / "env", wheels, ("llmperf-core", "llmperf-schemas", "llmperf-cpu"))
    assert not list((tmp_path / "env").glob("lib/*/site-packages/torch"))
    assert "cases is a command of llmperf-inspect" in call(llmperf, "cases", expected=2).stderr
    assert "new is a command of llmperf-testing" in call(llmperf, "new", "vendor", "acme", expected=2).stderr
    plan = call(llmperf, "plan", "default", cwd=tmp_path, expected=2).stdout
    assert "2 ranks = TP1 x PP1 x DP2" in plan
    hint = " ./frameworks/pytorch ./frameworks/kit ./frameworks/zero  # in a clone of llmperf"
    assert hint in plan
    refused = call(llmperf, "run", "default", cwd=tmp_path, expected=2).stderr
    assert hint in refused
    assert not (tmp_path / "runs").exists()


OUTSIDER = """
from collections.abc import Iterable
from pathlib import Path

import llmperf
from llmperf.types import DeviceInfo, Offers, PeakFlops, Probe


@llmperf.hookimpl
def llmperf_resources() -> Iterable[Path]:
    return [Path(__file__).parent / "data"]


@llmperf.hookimpl
def llmperf_probe() -> Probe:
    offers = Offers(precisions=("bf16",), runtimes=("torch",), collective_backend="acmecl")
    device = DeviceInfo(index=0, model="Acme A1", memory_bytes=64 * 2**30)
    return Probe(vendor="acme", devices=(device,), offers=offers, simulated=True)


@llmperf.hookimpl
def llmperf_peak_flops(device_model: str, dtype: str) -> PeakFlops | None:
    return None


reveal_type(llmperf_probe().devices[0].memory_bytes)
wrong: str = llmperf_probe().devices[0].index
"""


def test_a_package_of_an_outsider_is_type_checked_against_the_wheels(wheels, tmp_path):
    """With mypy --strict and nothing else of the project: `py.typed` works, and types are those of core."""
    environment(tmp_path / "env", wheels, ("llmperf-core", "llmperf-schemas", "llmperf-testing"), "mypy")
    (tmp_path / "acme.py").write_text(OUTSIDER)
    checked = call(tmp_path / "env/bin/python", "-m", "mypy", "--strict", "acme.py", cwd=tmp_path, expected=1).stdout
    assert 'Revealed type is "' in checked
    assert "int" in checked.splitlines()[0]
    assert 'expression has type "int", variable has type "str"' in checked
    assert "Found 1 error in 1 file" in checked, checked


def test_a_new_vendor_is_made_from_wheels(wheels, tmp_path):
    names = ("llmperf-core", "llmperf-schemas", "llmperf-cpu", "llmperf-testing")
    llmperf = environment(tmp_path / "env", wheels, (*names, "llmperf-inspect"))
    assert json.loads(call(llmperf, "plugins", "--json").stdout)[0]["name"] == "cpu"
    call(llmperf, "new", "vendor", "acme", cwd=tmp_path)
    assert (tmp_path / "llmperf-acme" / ".github" / "workflows" / "test.yml").is_file()


def test_frameworks_without_torch_are_refused_before_ranks_start(wheels, tmp_path):
    llmperf = environment(tmp_path / "env", wheels, ("llmperf-core", "llmperf-schemas", "llmperf-cpu"))
    frameworks = [next(wheels.glob(f"llmperf_{name}-*.whl")) for name in ("pytorch", "zero")]
    call(UV, "pip", "install", "-q", "--no-deps", "--python", llmperf.with_name("python"), *frameworks)
    for framework in ("pytorch", "zero"):
        told = call(llmperf, "run", "default", "--framework", framework, cwd=tmp_path, expected=2).stderr
        (line,) = [line for line in told.splitlines() if "tuning.framework" in line]
        assert "torch>=2.6" in line
        assert "uv pip install" in line
    assert not (tmp_path / "runs").exists()


def test_core_and_one_framework_train_from_wheels(wheels, tmp_path):
    members = ("llmperf-core", "llmperf-schemas", "llmperf-cpu", "llmperf-torchkit", "llmperf-pytorch")
    pins = [f"{name}=={version(name)}" for name in ("torch", "transformers", "numpy")]
    llmperf = environment(tmp_path / "env", wheels, members, *pins)
    settings = ["--set", "steps=4", "--set", "warmup_steps=1", "--set", "model=llama_tiny", "--devices", "1"]
    call(llmperf, "run", "default", "--framework", "pytorch", *settings, cwd=tmp_path)
    (result,) = (tmp_path / "runs").glob("*/result.json")
    document = json.loads(result.read_text())
    assert document["status"] == "complete"
    assert document["metrics"]["tokens_per_second_per_device"] > 0
    call(llmperf, "validate", "runs", cwd=tmp_path)


@pytest.mark.long
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
