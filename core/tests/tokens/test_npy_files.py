"""`.npy` files of tokens as users have them, whole and damaged, and paths that are not read."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf.tokens.sources import npy_tokens, read_tokens
from llmperf.types import DataSource


def read(path, **settings):
    return read_tokens("mine", DataSource(path=str(path), **settings)).ids.tolist()


@pytest.mark.parametrize("dtype", ["u1", "<i4", ">i4", "<u8"])
def test_npy_of_one_and_two_dimensions(tmp_path, dtype):
    np.save(tmp_path / "t.npy", np.arange(6, dtype=dtype))
    assert read(tmp_path / "t.npy") == list(range(6))
    np.save(tmp_path / "t.npy", np.arange(6, dtype=dtype).reshape(2, 3))
    assert read(tmp_path / "t.npy") == list(range(6))
    np.save(tmp_path / "t.npy", np.zeros(0, dtype=dtype))
    assert read(tmp_path / "t.npy") == []


@pytest.mark.parametrize(
    "array",
    [
        np.array([{"a": 1}, None], dtype=object),
        np.zeros(3),
        np.zeros((2, 2, 2), dtype=int),
        np.array(3),
        np.array(["text"]),
        np.zeros(3, dtype=[("a", "i4")]),
        np.asfortranarray(np.zeros((2, 3), dtype=int)),
    ],
)
def test_npy_of_anything_else(tmp_path, array):
    np.save(tmp_path / "t.npy", array, allow_pickle=True)
    with pytest.raises(UserError, match=r"data.path"):
        read(tmp_path / "t.npy")


@given(st.binary(max_size=300), st.booleans())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_no_npy_file_brings_anything_but_tokens_or_one_line(tmp_path, content, magic):
    (tmp_path / "t.npy").write_bytes((b"\x93NUMPY\x01\x00" if magic else b"") + content)
    with pytest.raises(UserError) as error:
        npy_tokens(tmp_path / "t.npy")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "No data left in file"), (b"PK\x05\x06", "not a zip"), (None, "")]
)
def test_a_npy_file_that_is_none_or_is_cut_off(tmp_path, content, reason):
    np.save(tmp_path / "t.npy", np.arange(1000))
    whole = (tmp_path / "t.npy").read_bytes()
    (tmp_path / "t.npy").write_bytes(whole[:-8] if content is None else content)
    with pytest.raises(UserError, match=rf"t.npy is not a readable .npy file: .*{reason}"):
        read(tmp_path / "t.npy")


@pytest.mark.parametrize("settings", [{}, {"format": "text"}, {"format": "npy"}])
def test_what_is_no_regular_file_is_not_read(tmp_path, settings):
    os.mkfifo(tmp_path / "pipe.txt")
    for path in (tmp_path / "pipe.txt", "/dev/zero"):
        with pytest.raises(UserError, match=f"data.path: {path} is neither a regular file nor a folder"):
            read(path, **settings)
