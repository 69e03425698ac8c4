"""The folder in which the ranks of a node meet."""

import os
import tempfile
from pathlib import Path

from llmperf_inside.siblings import private_folder


def test_a_folder_that_others_may_use_is_left_alone(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="p") as short:  # paths of sockets are short
        monkeypatch.setattr(tempfile, "tempdir", short)
        taken = Path(short) / f"llmperf-inside-{os.getuid()}"
        taken.mkdir(mode=0o755)
        taken.chmod(0o755)
        folder = private_folder()
        assert folder == taken.with_name(f"{taken.name}-2")
        assert folder.stat().st_mode & 0o777 == 0o700
        assert private_folder() == folder
