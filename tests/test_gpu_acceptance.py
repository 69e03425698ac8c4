"""The acceptance on a GPU: calls of limited length, which continue; each step on the CPU in small."""

import importlib
import json
import random
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "benchmarks" / "gpu_acceptance.py"


@pytest.fixture
def program(monkeypatch):
    """The program as a module, with three steps: one passes, one fails, one raises what nobody expects."""
    monkeypatch.syspath_prepend(str(PROGRAM.parent))
    module = importlib.import_module("gpu_acceptance")
    checks, planned = importlib.import_module("gpu_checks"), importlib.import_module("gpu_steps")

    def figures(acceptance, step):
        if step.name == "fails":
            raise checks.StepFailed("not as expected", {"seen": 1})
        return {"fine": 1} if step.name == "passes" else {}["nothing"]

    steps = [
        planned.Step(name=name, kind="doctor", expected_seconds=seconds, limit_seconds=60)
        for name, seconds in (("passes", 1), ("fails", 1), ("raises", 100))
    ]
    monkeypatch.setattr(module, "steps", lambda *, small: steps)
    monkeypatch.setattr(module, "CHECKS", {"doctor": figures})
    yield module
    for name in ("gpu_acceptance", "gpu_checks", "gpu_steps"):
        sys.modules.pop(name, None)


def call(program, monkeypatch, folder, *words):
    monkeypatch.setattr(sys, "argv", ["gpu_acceptance.py", "--out", str(folder), *words])
    return program.main()


def outcomes(folder):
    document = json.loads((folder / "report.json").read_text())
    return {name: step.get("status") for name, step in document["steps"].items()}


def test_a_call_ends_in_time_and_the_next_one_continues(program, monkeypatch, tmp_path):
    assert call(program, monkeypatch, tmp_path, "--seconds", "50") == 3
    assert outcomes(tmp_path) == {"passes": "passed", "fails": "failed", "raises": None}
    assert call(program, monkeypatch, tmp_path, "--seconds", "500") == 1
    assert outcomes(tmp_path) == {"passes": "passed", "fails": "failed", "raises": "failed"}
    state = json.loads((tmp_path / "state.json").read_text())["steps"]
    assert [step["attempts"] for step in state.values()] == [1, 1, 1]
    report = (tmp_path / "report.md").read_text()
    assert "| fails | failed | 0 | not as expected |" in report
    assert "KeyError: 'nothing'" in report
    with pytest.raises(SystemExit, match="2"):  # expected one of passes, fails, raises
        call(program, monkeypatch, tmp_path, "--only", "dotcor")


def test_an_archive_is_all_that_another_machine_needs_to_continue(program, monkeypatch, tmp_path, capsys):
    first, second, archive = tmp_path / "first", tmp_path / "second", tmp_path / "home" / "acceptance.tar.gz"
    (first / "runs").mkdir(parents=True)
    (first / "runs" / "result.json").write_text("{}")
    words = ("--archive", str(archive), "--resume", str(archive), "--seconds")
    assert call(program, monkeypatch, first, *words, "50") == 3
    assert call(program, monkeypatch, second, *words, "500") == 1
    assert f"resumed from {archive}" in capsys.readouterr().out
    state = json.loads((second / "state.json").read_text())["steps"]
    assert [step["attempts"] for step in state.values()] == [1, 1, 1]
    assert (second / "runs" / "result.json").is_file()
    with tarfile.open(archive) as tar:
        assert {"state.json", "report.md", "report.json", "runs/result.json"} <= set(tar.getnames())


def test_an_archive_leaves_out_and_names_what_is_too_large(program, tmp_path):
    folder, archive = tmp_path / "acceptance", tmp_path / "acceptance.tar.gz"
    folder.mkdir()
    (folder / "state.json").write_text("{}")
    (folder / "small.log").write_text("x")
    (folder / "trace.json").write_bytes(random.Random(0).randbytes(2**20))
    assert program.save(folder, archive, most_bytes=2**16) == ["trace.json"]
    assert archive.stat().st_size < 2**16
    assert program.resume(archive, tmp_path / "other")
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["small.log", "state.json"]


def test_the_steps_fit_forty_minutes_and_those_that_teach_most_are_first(monkeypatch):
    monkeypatch.syspath_prepend(str(PROGRAM.parent))
    steps = importlib.import_module("gpu_steps").steps(small=False)
    sys.modules.pop("gpu_steps")
    assert sum(step.expected_seconds for step in steps) <= 2400
    names = [step.name for step in steps]
    assert len(set(names)) == len(names)
    telling = ("attention kernels", "pytorch, compiled", "cuDNN attention", "flex attention", "fp8, rowwise")
    for name in (*telling, "estimate of mixture"):
        assert names.index(name) < min(place for place, other in enumerate(names) if other.startswith("ZeRO"))
    for place, step in enumerate(steps):
        assert step.of is None or step.of in names[:place], step.name


@pytest.mark.slow
def test_an_environment_sees_the_packages_of_a_python_that_is_itself_a_virtual_environment(tmp_path):
    """`venv --system-site-packages` of such a Python sees those of the Python below it alone."""
    outer = tmp_path / "outer"
    venv.create(outer, with_pip=False)
    (packages,) = (outer / "lib").glob("python*/site-packages")
    (packages / "torch").mkdir()
    (packages / "torch" / "__init__.py").write_text("__version__ = 'of the outer environment'")
    (packages / "vendor").mkdir()
    (packages / "vendor.pth").write_text(str(packages / "vendor"))
    (packages / "vendor" / "transformers.py").write_text("")
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    command = [str(outer / "bin" / "python"), str(PROGRAM.with_name("gpu_setup.py"))]
    words = ["--wheels", str(wheels), "--out", str(tmp_path / "env")]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "expected wheels, found none; make them with benchmarks/gpu_wheels.py" in done.stderr
    information = "llmperf_stand_in-1.0.dist-info"
    with zipfile.ZipFile(wheels / "llmperf_stand_in-1.0-py3-none-any.whl", "w") as file:
        file.writestr("llmperf_stand_in.py", "")
        file.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\nName: llmperf_stand_in\nVersion: 1.0\n")
        file.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{information}/RECORD", "")
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 wheels; from " in done.stdout
    program = "import llmperf_stand_in, transformers, torch; print(torch.__version__)"
    shown = subprocess.run([str(tmp_path / "env" / "bin" / "python"), "-c", program], capture_output=True, text=True)
    assert shown.stdout.strip() == "of the outer environment", shown.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_runs_on_a_cpu_in_small(tmp_path):
    chosen = [
        word for name in ("doctor", "attention kernels", "pytorch", "pytorch, no kernels") for word in ("--only", name)
    ]
    command = [sys.executable, str(PROGRAM), "--small", "--out", str(tmp_path), *chosen]
    done = subprocess.run(command, capture_output=True, text=True, timeout=560)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(outcomes(tmp_path).values()) == {"passed"}
    assert len(list((tmp_path / "runs").glob("*/result.json"))) == 2
    assert "token/p/s" in (tmp_path / "report.md").read_text()
