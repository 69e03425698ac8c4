"""A disk that is full at any moment: each call that changes a file fails once, and nothing half-written is left."""

import errno
import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest
from llmperf.cli.main import call
from llmperf.validation.check import validate_path

CALLS = ("open", "write", "replace", "rename", "fsync", "chmod", "mkdir", "ftruncate", "link")
"""Functions of `os` that fail on a full or broken disk; open only for writing."""


class Disk:
    """Counts the calls that change files below a folder, and lets one of them fail."""

    def __init__(self, folder, failing):
        self.folder = str(folder)
        self.failing = failing
        self.calls = 0
        self.descriptors: set[int] = set()

    def counted(self, name, arguments):
        """OSError for the call that has to fail."""
        target = arguments[0]
        if isinstance(target, int):
            if target not in self.descriptors:
                return
        elif not os.path.abspath(os.fspath(target)).startswith(self.folder):
            return
        if name == "open" and not arguments[1] & (os.O_WRONLY | os.O_RDWR):
            return
        self.calls += 1
        if self.calls == self.failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), None if isinstance(target, int) else str(target))


@contextmanager
def disk(folder, failing=None):
    """The calls of `os`, and what buffered files write, go through a `Disk`."""
    watched = Disk(folder, failing)
    originals = {name: getattr(os, name) for name in CALLS} | {"fdopen": os.fdopen, "close": os.close}

    def through(name):
        def function(*arguments, **options):
            watched.counted(name, arguments)
            answer = originals[name](*arguments, **options)
            if name == "open" and os.path.abspath(os.fspath(arguments[0])).startswith(watched.folder):
                watched.descriptors.add(answer)
            return answer

        return function

    def fdopen(descriptor, *arguments, **options):
        file = originals["fdopen"](descriptor, *arguments, **options)
        if descriptor in watched.descriptors and file.writable():
            write = file.write

            class Failing:
                def __getattr__(self, name):
                    return getattr(file, name)

                def __enter__(self):
                    return self

                def __exit__(self, *error):
                    file.close()

                def write(self, data):
                    try:
                        watched.counted("write", (descriptor,))
                    except OSError:
                        write(data[: len(data) // 2])  # part of it is on the disk
                        raise
                    return write(data)

            return Failing()
        return file

    def close(descriptor):
        watched.descriptors.discard(descriptor)
        originals["close"](descriptor)

    try:
        for name in CALLS:
            setattr(os, name, through(name))
        os.fdopen, os.close = fdopen, close
        yield watched
    finally:
        for name, function in originals.items():
            setattr(os, name, function)


def files_below(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def key(tmp_path):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen (openssh-client) is missing")
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path, "-C", ""], check=True)
    return path


COMMANDS = {
    "pack": ["pack", "RUN", "-o", "OUT/submission.zip"],
    "record": ["validate", "RUN", "--record"],
    "report": ["report", "RUN", "--format", "markdown", "-o", "OUT/report.md"],
    "html": ["report", "RUN", "--format", "html", "-o", "OUT/report.html"],
    "model": ["models", "import", "OUT/config.json", "-o", "OUT/mine.toml"],
    "sign": ["sign", "RUN", "--key", "KEY"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_leaves_its_files_whole_or_not_at_all(name, run_folder, tmp_path, key, capsys):
    out = tmp_path / "out"
    out.mkdir()
    shutil.copytree(run_folder, out / "run")
    (out / "config.json").write_text(
        '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,'
        ' "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 256,'
        ' "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false}'
    )
    places = {"RUN": str(out / "run"), "KEY": str(key)}
    words = [places.get(word, word.replace("OUT", str(out))) for word in COMMANDS[name]]
    before = files_below(out)

    def restore():
        for path in set(files_below(out)) - set(before):
            (out / path).unlink()

    with disk(out) as watched:
        assert call(words) == 0
    whole = set(files_below(out)) - set(before)
    assert len(whole) == 1
    assert watched.calls >= 4  # open, write, flush to the disk, rename
    restore()
    for failing in range(1, watched.calls + 1):
        capsys.readouterr()
        with disk(out, failing):
            assert call(words) == 2, failing
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("llmperf:")]
        assert len(lines) == 1
        assert "No space left on device" in lines[0]
        assert files_below(out) == before, failing


@pytest.mark.slow
@pytest.mark.long
def test_a_run_on_a_full_disk_is_never_taken_for_whole(stub_run, tmp_path, capsys):
    with disk(tmp_path / "runs") as watched:
        assert call(stub_run) == 0
    assert watched.calls > 10
    for failing in range(1, watched.calls + 1):
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        capsys.readouterr()
        with disk(tmp_path / "runs", failing):
            code = call(stub_run)
        assert "Traceback" not in capsys.readouterr().err
        results = list((tmp_path / "runs").glob("*/result.json"))
        assert code in (1, 2) or results, failing
        for result in results:
            errors = [finding.code for file in validate_path(result) for finding in file.findings
                      if finding.severity == "error"]  # fmt: skip
            assert errors == [], failing
