"""Files that cannot be read for lack of rights are reported, not skipped."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from llmperf import open_regular
from llmperf.cli.main import call

ROOT_READS_ALL = "dac_override", "dac_read_search"
EXAMPLE = Path(__file__).parents[3] / "docs" / "rules" / "example.md"


def powerless(*words):
    """llmperf started by somebody to whom modes apply; root is such a one without two of its capabilities."""
    command = [sys.executable, "-m", "llmperf", *map(str, words)]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root reads all, and there is no setpriv")
        given_up = ",".join(f"-{one}" for one in ROOT_READS_ALL)
        command = ["setpriv", f"--bounding-set={given_up}", f"--inh-caps={given_up}", *command]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def closed(tmp_path):
    """Close a file or a folder in a folder with a readable document; all is open again at the end."""
    shutil.copy(EXAMPLE, tmp_path / "open.md")
    made = []

    def close(name, mode=0):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        if path.suffix:
            path.write_text("{}")
        else:
            path.mkdir()
        path.chmod(mode)
        made.append(path)
        return path

    yield close
    for path in made:
        path.chmod(0o700)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["folder", "README.md", "some.json", "some.toml", "plan.json"])
def test_what_is_closed_in_a_folder_is_told(closed, tmp_path, name):
    path = closed(name)
    done = powerless("validate", tmp_path)
    assert done.returncode == 2
    assert f"{path}: LP001 error Permission denied" in done.stdout
    assert "2 files: 1 error" in done.stderr


@pytest.mark.slow
def test_a_folder_whose_files_cannot_be_looked_at_is_told(closed, tmp_path):
    folder = closed("folder", 0o700)
    (folder / "result.json").write_text("{}")
    folder.chmod(0o400)
    done = powerless("validate", tmp_path)
    assert done.returncode == 2
    assert f"{folder}/result.json: LP001 error Permission denied" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", [["validate"], ["report"]])
def test_a_closed_folder_is_a_line_for_every_command(closed, command):
    folder = closed("folder")
    for path in (folder, folder / "result.json"):
        done = powerless(*command, path)
        assert done.returncode == 2
        told = done.stdout + done.stderr
        assert "Permission denied" in told or "is not readable" in told
        assert "Traceback" not in told


@pytest.mark.slow
def test_report_names_what_it_left_out(closed, tmp_path, example, saved):
    saved(tmp_path / "run" / "result.json", example)
    folder = closed("folder")
    done = powerless("report", tmp_path)
    assert done.returncode == 0
    assert f"left out: {folder}: Permission denied" in done.stderr


def test_a_table_of_results_without_its_machine_is_judged_in_a_folder_too(tmp_path, capsys):
    path = tmp_path / "README.md"
    whole = EXAMPLE.read_text()
    path.write_text(whole[whole.index("### Results") :])
    named = call(["validate", str(path)]), capsys.readouterr().out
    assert (call(["validate", str(tmp_path)]), capsys.readouterr().out) == named


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
