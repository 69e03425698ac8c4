"""A cache that several users share."""

import os

from llmperf.files.user_files import cache_dir


def test_a_folder_that_another_user_made_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path))
    assert cache_dir("tokens") == tmp_path / "tokens"
    (tmp_path / "tokens").mkdir()
    assert cache_dir("tokens") == tmp_path / "tokens"
    owner = os.getuid() or 1
    os.chown(tmp_path / "tokens", owner, -1)
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert cache_dir("tokens") == tmp_path / f"user-{owner + 1}" / "tokens"
    assert cache_dir("digests") == tmp_path / "digests"
