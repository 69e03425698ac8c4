"""The documents were executed: each command in them that is quick is run, and each link points somewhere."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import llmperf_schemas
import pytest
from llmperf.cli.main import COMMANDS, call

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

COMMAND = re.compile(r"^(?:uv run )?(llmperf [^#|\n]*)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")


def commands() -> list[list[str]]:
    """Every llmperf command of the documents' shell blocks, once."""
    blocks = [block for path in DOCUMENTS for block in re.findall(r"```sh\n(.*?)```", path.read_text(), re.DOTALL)]
    found = {" ".join(match.split()) for block in blocks for match in COMMAND.findall(block)}
    return [shlex.split(command)[1:] for command in sorted(found)]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_in_the_documents_work(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "20261121-030405-default-cpu-zero-ab12"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(llmperf_schemas.example("result")))
    assert words[0] in COMMANDS
    if words[0] == "run":
        words = [*words, "--dry-run"]
    assert call(words) == 0, capsys.readouterr().err


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_inside_the_repository_point_somewhere(path):
    for target in LINK.findall(path.read_text()):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (path.parent / target).exists(), target
