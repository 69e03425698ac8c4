"""Packages that other people wrote for an earlier edition of the contract work."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from llmperf.cli.main import call

EDITION = Path(__file__).parent / "outsiders" / "f6ac8d91"
PACKAGES = {"copper": "vendor", "lathe": "framework", "press": "framework", "drill": "extension"}
SMALL = ["micro_batch=1", "steps=8", "contract.warmup_steps=2", "model=llama_tiny", "seq_len=16", "devices=1"]
RUN = ["default", *(word for setting in SMALL for word in ("--set", setting))]


@pytest.fixture
def installed(tmp_path, monkeypatch, announced, on_path):
    """A function that installs packages of the edition for this process and those that it starts."""
    site = tmp_path / "site"
    site.mkdir()
    on_path(site)
    monkeypatch.chdir(tmp_path)

    def put(*names):
        for name in names:
            shutil.copy(EDITION / f"llmperf_{name}.py", site)
            announced(site, f"llmperf-{name}", **{PACKAGES[name]: f"{name} = llmperf_{name}"})

    yield put
    for module in [module for module in sys.modules if module.removeprefix("llmperf_") in PACKAGES]:
        del sys.modules[module]
    if catalogue := sys.modules.get("llmperf.validation.catalogue"):
        catalogue.forget_catalogues()


def states(capsys):
    """What `llmperf plugins` says of each outsider's package."""
    assert call(["plugins", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    return {row["name"]: row["state"] for row in rows if row["name"] in PACKAGES}


def test_all_packages_of_the_edition_work(installed, capsys):
    installed(*PACKAGES)
    assert states(capsys) == dict.fromkeys(PACKAGES, "ok")


def ran(capsys, code, *words):
    """The result of a run, as JSON."""
    assert call(["run", *RUN, "--json", *words]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("framework", ["lathe", "press"])
def test_a_run_with_packages_of_the_edition(installed, capsys, framework):
    installed("copper", framework)
    result = ran(capsys, 0, "--vendor", "copper", "--framework", framework)["result"]
    assert result["status"] == "complete"
    assert result["metrics"]["tokens_per_second_per_device"] > 0
    assert "error" not in {finding["severity"] for finding in result["findings"]}, result["findings"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_door_of_the_edition_is_used_by_one_run(installed, capsys):
    installed("copper", "lathe", "drill")
    chosen = ("--vendor", "copper", "--framework", "lathe", "--launcher", "drill", "--log", "drill=steps.jsonl")
    document = ran(capsys, 0, *chosen)
    folder = Path(document["folder"])
    assert json.loads((folder / "plan.json").read_text())["launcher"] == "drill"
    for lines in ((folder / "drill.jsonl").read_text(), Path("steps.jsonl").read_text()):
        assert [json.loads(line).get("step") for line in lines.splitlines()] == [*range(1, 9), None]
    assert {"COPPER1", "DRILL1"} <= {finding["code"] for finding in document["result"]["findings"]}
    assert document["result"]["metrics"]["evaluation"] == {"accuracy": 0.5}
    done = subprocess.run(
        [sys.executable, "-m", "llmperf", "report", str(folder), "--format", "drill"], capture_output=True, text=True
    )
    assert done.stdout == "llama_tiny\n", done.stderr
