"""The acceptance on a GPU: calls of limited length, which continue; each step on the CPU in small."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
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
    for name in ("gpu_acceptance", "gpu_call", "gpu_checks", "gpu_report", "gpu_steps"):
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


def test_an_unknown_step_is_refused(program, monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit):
        call(program, monkeypatch, tmp_path, "--only", "dotcor")
    assert "expected one of passes, fails, raises" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_runs_on_a_cpu_in_small(tmp_path):
    chosen = [word for name in ("doctor", "pytorch", "pytorch, no kernels") for word in ("--only", name)]
    command = [sys.executable, str(PROGRAM), "--small", "--out", str(tmp_path), *chosen]
    done = subprocess.run(command, capture_output=True, text=True, timeout=560)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(outcomes(tmp_path).values()) == {"passed"}
    assert len(list((tmp_path / "runs").glob("*/result.json"))) == 2
    assert "token/p/s" in (tmp_path / "report.md").read_text()
