"""Every command of docs/tutorial.md in its order and in one folder, with real runs of a smaller model.

`test_documents.py` executes the same commands one by one on prepared results.
"""

import re
import shlex
from pathlib import Path

import pytest
from llmperf.cli.main import call

TEXT = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text()
COMMANDS = [
    line.removeprefix("llmperf ")
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
]
SMALLER = "--set model=llama_tiny --set seq_len=32 --set steps=4 --set warmup_steps=1"


@pytest.mark.slow
@pytest.mark.long
def test_the_commands_of_the_tutorial_work_one_after_another(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shown = {}
    for command in COMMANDS:
        words = shlex.split(f"{command} {SMALLER}" if command.startswith("run") else command)
        assert call(words) == 0, f"{command}: {capsys.readouterr().err}"
        shown[command] = capsys.readouterr().out
    assert [command for command in COMMANDS if command.startswith("run")] == [
        "run --out runs/zero",
        "run --framework pytorch --out runs/pytorch",
    ]
    assert " token/p/s, " in shown["run --out runs/zero"]
    for text in (TEXT, shown["compare runs/zero runs/pytorch"]):
        assert re.search("cannot tell: B measured [0-9.]+ times as fast as A, and a single run has no spread", text)
    assert "<html" in (tmp_path / "runs.html").read_text()
