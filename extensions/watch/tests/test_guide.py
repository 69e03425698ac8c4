"""The commands of the guide were executed, with its program and its profile."""

import re
import shlex
import sys
from pathlib import Path

from llmperf.cli.main import call

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "any-program.md"


def test_the_guide_works(tmp_path, monkeypatch, capfdbinary):
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text()
    for name, content in re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(content)
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.splitlines() if line.startswith("llmperf ")]
    for words in commands:
        words = [sys.executable if word == "python" else word for word in words[1:]]
        assert call(words) == 0, words
    report = (tmp_path / "watched.md").read_text()
    assert "8 sequences (printed by the program) of 2048 tokens (printed by the program)" in report
    assert "MFU (nominal)" in report
