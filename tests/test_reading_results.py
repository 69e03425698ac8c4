"""What reads results is installed by the printed command, and works without torch and without Linux."""

import re
from pathlib import Path

import llmperf_schemas
import pytest

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "user-guide.md").read_text()
MAC = """
import builtins, io, os, sys
for name in "sched_getaffinity sched_setaffinity posix_fadvise memfd_create eventfd pidfd_open waitid".split():
    delattr(os, name)
def without_linux(call):
    def called(path, *arguments, **options):
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(("/proc", "/sys/")):
            raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
        return call(path, *arguments, **options)
    return called
builtins.open = io.open = without_linux(open)
for name in ("open", "listdir", "scandir", "stat", "readlink"):
    setattr(os, name, without_linux(getattr(os, name)))
sys.platform = "darwin"
sys.modules.update(dict.fromkeys(("torch", "deepspeed", "paddle", "transformers")))
"""
"""What Python has on Linux alone is taken away when it starts."""


def test_the_printed_command_names_every_package_that_is_needed():
    (command,) = re.findall(r"pip install (\.\./core .*?) *#", GUIDE)
    projects = [(ROOT / "extensions" / folder / "pyproject.toml").read_text() for folder in command.split()]
    given = {re.search('^name = "(.*)"', project, re.MULTILINE)[1] for project in projects}
    needed = {name for project in projects for name in re.findall(r'^ *"(llmperf-\w+)[^"]*",', project, re.MULTILINE)}
    assert "llmperf-compare" in needed <= given


@pytest.mark.slow
def test_results_are_read_without_linux(tmp_path, saved, apart):
    (tmp_path / "sitecustomize.py").write_text(MAC)
    saved(tmp_path / "results" / "result.json", llmperf_schemas.example("result"))
    for words, shown in (
        ("report results", "800.0 token/p/s"),
        ("report results --format html -o report.html", ""),
        ("site results -o site", "1 result"),
        ("validate results", "1 file: 0 errors"),
        ("summary results", "800.0"),
        ("plan llama2_7b_pretrain_zero --on A100-SXM4-80GB:1x8", "llama2_7b"),
        ("estimate llama2_7b_pretrain_zero --on A100-SXM4-80GB:1x8,H800-SXM5-80GB:1x8", "H800"),
    ):
        done = apart(0, *words.split(), cwd=tmp_path, PYTHONPATH=str(tmp_path))
        assert shown in done.stdout + done.stderr, words
    refused = apart(2, "run", cwd=tmp_path, PYTHONPATH=str(tmp_path)).stderr
    assert "expected Linux to train on, found darwin" in refused
