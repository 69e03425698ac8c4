"""The folder of the tests on the path, for what they share, and imports by the command."""

import json
import sys
from pathlib import Path

import pytest
from llmperf.cli.main import call

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def imported(tmp_path, monkeypatch, capsys):
    """Import a text to `out` with options: `imported(text, "--model", "x")` gives exit code, rows and errors."""
    monkeypatch.chdir(tmp_path)

    def run(text, *options, name="t.md"):
        Path(name).write_text(text)
        code = call(["import", name, "--out", "out", "--force", "--json", *options])
        out, err = capsys.readouterr()
        return code, json.loads(out)[0]["rows"] if out else [], err

    return run
