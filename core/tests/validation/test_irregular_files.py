"""Pipes, sockets and devices where a file is expected: refused at once, as reading one need not end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from pathlib import Path

import pytest
from llmperf import open_regular
from llmperf.cli.main import call

DOCUMENT = (
    Path(__file__).parents[3] / "extensions" / "published" / "tests" / "published_documents" / "llama2_7b_lora_a100.md"
)
SECONDS = 100


@pytest.fixture(autouse=True)
def limited():
    """A command that waits for a writer fails, in place of stopping the suite."""

    def give_up(*_: object) -> None:
        pytest.fail(f"still waiting after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


COMMANDS = {
    "README.md": (["import", "{path}", "--out", "{folder}/out"], ["validate", "{path}"]),
    "result.json": (["report", "{path}"], ["validate", "{path}"]),
    "published.json": (["report", "{path}"], ["validate", "{path}"]),
    "case.toml": (["plan", "{path}"], ["validate", "{path}"]),
    "handed.zip": (["validate", "{path}"],),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_is_refused_by_every_command_that_reads_it(name, tmp_path, capsys):
    path = tmp_path / name
    os.mkfifo(path)
    for words in COMMANDS[name]:
        assert call([word.format(path=path, folder=tmp_path) for word in words]) == 2, words
        told = capsys.readouterr()
        lines = [line for line in (told.out + told.err).splitlines() if str(path) in line]
        assert len(lines) == 1, words
        assert "expected a regular file, found a pipe" in lines[0] or "neither a file nor a folder" in lines[0]


def test_only_regular_files_are_opened(tmp_path, monkeypatch):
    with open_regular(DOCUMENT) as file:
        assert file.read(3) == DOCUMENT.read_bytes()[:3]
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(tmp_path)  # a socket's name is short
        listening.bind("socket")
        for name, found in (("pipe", "a pipe"), ("socket", "a socket"), ("/dev/zero", "a device")):
            with pytest.raises(OSError, match=f"expected a regular file, found {found}"):
                open_regular(Path(name))
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "absent")


def test_a_pipe_that_takes_the_place_of_a_checked_file_is_refused(tmp_path, monkeypatch, ran):
    """The check before must not be the only one: the path may be another file by the time it is opened."""
    path = tmp_path / "README.md"
    shutil.copy(DOCUMENT, path)
    checked = Path.is_file

    def then_replaced(self: Path, *args: object, **kwargs: object) -> bool:
        regular = checked(self, *args, **kwargs)
        if self == path and regular:
            path.unlink()
            os.mkfifo(path)
        return regular

    monkeypatch.setattr(Path, "is_file", then_replaced)
    assert "expected a regular file, found a pipe" in ran(2, "validate", path).out
