"""Writing files whole or not at all."""

import os
import stat

import pytest
from llmperf.errors import UserError
from llmperf.files.json_files import writable, write_bytes


def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for check in (writable, lambda path: write_bytes(path, b"{}")):
        with pytest.raises(UserError, match=r"pipe: cannot write: expected a regular file, found something else"):
            check(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_file_in_no_folder_is_refused_before_anything_is_measured(tmp_path):
    with pytest.raises(UserError, match="no folder"):
        writable(tmp_path / "absent" / "rates.json")
