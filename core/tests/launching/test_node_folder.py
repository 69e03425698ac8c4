"""The folder of a node for run folders."""

import os
import tempfile

from llmperf.launching.run_on_node import node_folder


def test_an_existing_folder_is_made_private(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    existing = tmp_path / f"llmperf-{os.getuid()}"
    existing.mkdir()
    existing.chmod(0o755)
    assert node_folder() == existing
    assert existing.stat().st_mode & 0o777 == 0o700
