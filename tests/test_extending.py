"""docs/extending.md is executed: its package is installed beside core and what it needs, and its commands run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "extending.md").read_text()
UV = os.environ.get("UV") or shutil.which("uv")
FILES = dict(re.findall(r"`([\w./-]+)`:\n\n```\w+\n(.*?)```", GUIDE, re.DOTALL))
COMMANDS = [line for line in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)[-1].splitlines() if line]


@pytest.fixture(scope="module")
def forge(tmp_path_factory):
    """A function that runs a command line in an environment with the guide's package and what it needs."""
    folder = tmp_path_factory.mktemp("forge")
    for name, text in FILES.items():
        path = folder / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "package" / "src" / "llmperf_forge" / "__init__.py").touch()
    hidden = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}
    env = {name: value for name, value in os.environ.items() if name not in hidden} | {"COLUMNS": "200"}

    def call(*argv, expected=0):
        words = [str(word) for word in argv]
        done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == expected, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stderr if expected else done.stdout

    python = folder / "env" / "bin" / "python"
    call(UV, "venv", "-q", "--python", sys.executable, folder / "env")
    names = ("core", "schemas", "launchers/remote", "extensions/inspect", "extensions/scripts")
    own = (*(ROOT / name for name in names), folder / "package")
    call(UV, "pip", "install", "-q", "--python", python, *own)
    return folder, lambda line, **options: call(folder / "env" / "bin" / "llmperf", *line.split()[1:], **options)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(UV is None, reason="needs uv, which makes the environment")
def test_one_package_adds_whatever_the_guide_shows(forge):
    folder, llmperf = forge
    printed = {line.split()[1]: llmperf(line) for line in COMMANDS if "--explain" not in line}
    (explain,) = [line for line in COMMANDS if "--explain" in line]
    assert "Drivers before 2.0" in llmperf(explain)
    added = {"forge", "anvil", *(f"forge-{name}" for name in ("tools", "flops", "options", "checks"))}
    assert added <= set(printed["plugins"].split())
    (run,) = (folder / "runs").iterdir()
    result = json.loads((run / "result.json").read_text())
    assert (result["status"], result["metrics"]["measured_steps"]) == ("complete", 25)
    assert "FORGE1" in {finding["code"] for finding in result["findings"]}
    assert json.loads((run / "plan.json").read_text())["launcher"] == "sessions"
    assert len((run / "steps.jsonl").read_text().splitlines()) == 30
    assert "FORGE1" in printed["validate"]
    assert result["sections"]["steadiness"]["spread"] > 0
    assert "LP703" not in printed["validate"]
    assert re.fullmatch(r"llama_mini: [\d.,]+ token/p/s\n", printed["report"])
    assert not list((folder / "env").glob("lib/*/site-packages/torch"))
    missing = llmperf("llmperf models import config.json", expected=2)
    assert missing.startswith("llmperf: import is a command of llmperf-huggingface; install it with: ")
    assert missing.count("\n") == 1
    missing = llmperf("llmperf run --matrix sweep.toml", expected=2)
    assert missing.startswith("llmperf: --matrix is an option of llmperf-sweep; install it with: ")
    assert missing.count("\n") == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_option_a_record_and_a_section_are_one_file(tmp_path, apart):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "extension_room.py").write_text(FILES["src/llmperf_forge/room.py"])
    (tmp_path / "room.txt").write_text("21.5 at the door\n")

    def llmperf(line):
        return apart(0, *line.split(), cwd=tmp_path, LLMPERF_PLUGINS_DIR="plugins").stdout

    llmperf("run default --framework pytorch --set model=llama_tiny --set steps=6 --set warmup_steps=2 --room room.txt")
    llmperf("pack runs -o runs.zip")
    assert "LP703" not in llmperf("validate runs.zip")
    assert "room_celsius" in llmperf("report runs --format csv")
    (result,) = tmp_path.glob("runs/*/result.json")
    assert json.loads(result.read_text())["sections"]["room"] == {"first": 21.5, "last": 21.5}
