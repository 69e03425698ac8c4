"""The folder of a node for run folders."""

import os
import tempfile

import pytest
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf_remote.messages import RunOrder
from llmperf_remote.run_on_node import RunOnNode, node_folder


def test_an_existing_folder_is_made_private(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    existing = tmp_path / f"llmperf-{os.getuid()}"
    existing.mkdir()
    existing.chmod(0o755)
    assert node_folder() == existing
    assert existing.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["a folder that others may write to", "a link", "a file"])
def test_a_folder_that_is_not_ours_is_left_alone(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    taken = tmp_path / f"llmperf-{os.getuid()}"
    if kind == "a link":
        (tmp_path / "elsewhere").mkdir()
        taken.symlink_to(tmp_path / "elsewhere")
    elif kind == "a file":
        taken.write_text("")
    else:
        taken.mkdir()
        taken.chmod(0o777)
    folder = node_folder()
    assert folder == tmp_path / f"{taken.name}-2"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert node_folder() == folder


def test_a_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    (tmp_path / "llmperf-4242").mkdir(mode=0o700)
    with pytest.raises(UserError, match="expected a folder that only this user can write to"):
        node_folder()  # all further names are made by this user, too, who is not 4242


@pytest.mark.parametrize("delivered", [True, False], ids=["another node refused", "the controller is gone"])
def test_a_run_that_was_prepared_and_not_started_leaves_nothing(tmp_path, monkeypatch, stub_plan, delivered):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plan = stub_plan()
    order = RunOrder(run_id=plan.run_id, plan=json_files.encode(plan), tag="tag", env={}, sample_seconds=1.0)
    run = RunOnNode(order, 0, lambda line, wait=True: True)
    assert (run.run.folder / "plan.json").is_file()
    run.end(delivered)
    assert list(tmp_path.iterdir()) == []
