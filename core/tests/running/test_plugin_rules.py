"""Rules of plugins in a run: they are applied after the figures are saved and printed."""

import json
from pathlib import Path

import pytest
from llmperf.cli.main import call

RULE = """
import llmperf
from llmperf.types import Rule

def check(result):
    from pathlib import Path
    print("applied")
    saved = sorted(path.name for path in Path("runs").glob("*/re*.*"))
    assert saved == ["report.md", "result.json"], saved
    yield "/hardware/driver", "no driver"

@llmperf.hookimpl
def llmperf_rules():
    yield Rule(code="ODD1", severity="warning", title="A driver", check=check)
"""
SMALL = ["micro_batch=1", "steps=8", "warmup_steps=2", "model=llama_tiny", "seq_len=16", "framework.step_seconds=0.01"]
STUB = ["run", "default", "--vendor", "stub", "--framework", "stub", "--devices", "1"]


@pytest.fixture
def stub_run(stub_site, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return [*STUB, *(word for setting in SMALL for word in ("--set", setting))]


@pytest.mark.slow
def test_figures_are_saved_and_printed_before_rules_of_plugins(stub_run, install, capfd):
    install("llmperf-odd", "odd", RULE, role="extension")
    assert call(stub_run) == 0
    shown = capfd.readouterr().out
    assert "LP901" not in shown
    assert 0 < shown.index("token/p/s") < shown.index("run folder: ") < shown.index("ODD1 warning /hardware/driver")
    (saved,) = Path("runs").glob("*/result.json")
    assert "ODD1" in [finding["code"] for finding in json.loads(saved.read_text())["findings"]]
    assert "ODD1" in saved.with_name("report.md").read_text()
