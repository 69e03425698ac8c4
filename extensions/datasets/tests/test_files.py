"""Text and other files as users have them, whole and damaged, and the cache of their tokens."""

import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llmperf import pip_command
from llmperf.errors import UserError
from llmperf.tokens.sources import read_tokens
from llmperf.types import DataSource
from llmperf_datasets.reading import guess_format, megatron_tokens, npy_tokens
from llmperf_datasets.text import open_encoder, pieces


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path / "cache"))


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


def megatron(stem, documents, code=8, dtype="<u2", version=1):
    lengths = [len(one) for one in documents]
    size = np.dtype(dtype).itemsize
    pointers = np.cumsum([0, *lengths[:-1]]) * size if lengths else np.zeros(0)
    index = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", version, code, len(lengths), len(lengths) + 1)
    index += np.array(lengths, "<i4").tobytes() + pointers.astype("<i8").tobytes()
    index += np.arange(len(lengths) + 1, dtype="<i8").tobytes()
    stem.with_suffix(".idx").write_bytes(index)
    stem.with_suffix(".bin").write_bytes(b"".join(np.array(one, dtype).tobytes() for one in documents))
    return stem


def test_text_is_its_bytes_and_an_end_and_is_read_anew_when_it_changes(tmp_path):
    for content in ("aé\n", "two"):
        (tmp_path / "t.txt").write_text(content)
        assert read(tmp_path / "t.txt") == [*content.encode(), 256]


def test_text_longer_than_a_block_with_characters_across_its_edge(tmp_path):
    content = "é" * (1 << 20) + "\nend"
    (tmp_path / "t.txt").write_text("x" + content)
    assert bytes(read(tmp_path / "t.txt")[:-1]).decode() == "x" + content


@pytest.mark.parametrize(
    ("content", "byte"),
    [(b"\xff tail", 0), (b"a" * 9 + b"\xff tail", 9), (b"b" * (1 << 20) + b"\xff", 1 << 20), (b"ok \xc3", 3)],
    ids=["first", "within", "in the second block", "at the end"],
)
def test_undecodable_text_names_the_byte(tmp_path, content, byte):
    (tmp_path / "t.txt").write_bytes(content)
    with pytest.raises(UserError, match=rf"data.path: .*t.txt is not UTF-8 text: byte {byte} "):
        read(tmp_path / "t.txt")


@given(st.text(alphabet="ab\n", max_size=200), st.integers(1, 20))
def test_pieces_of_a_text_are_all_of_it(text, longest):
    cut = pieces(text, longest)
    assert "".join(cut) == text
    assert all(piece.endswith("\n") for piece in cut[:-1])


def tokenizer_file(path):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"to": 0, "be": 1, "</s>": 2, "?": 3}, "?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(path))
    return path


def test_text_through_a_local_tokenizer(tmp_path):
    tokenizer_file(tmp_path / "tokenizer.json")
    (tmp_path / "t.txt").write_text("to be\nor not to be")
    for name in (tmp_path / "tokenizer.json", tmp_path):
        assert read(tmp_path / "t.txt", tokenizer=str(name)) == [0, 1, 3, 3, 0, 1, 2]


@pytest.mark.parametrize(("template", "begin"), [("$A", ()), ("be $A", (1,)), ("be </s> $A to", (1, 2))])
def test_what_a_tokenizer_puts_before_a_text_is_known(tmp_path, template, begin):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file(tmp_path / "tokenizer.json")))
    marks = [("be", 1), ("</s>", 2), ("to", 0)]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single=template, special_tokens=marks)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    encoder = open_encoder(str(tmp_path / "tokenizer.json"))
    assert encoder.begin == begin
    assert encoder.encode("to be").tolist() == [0, 1]
    assert open_encoder("bytes").begin == ()


@pytest.mark.parametrize("content", [b"", b"{}", b"\x80\x04pickle", b"[" * 5000])
def test_what_is_no_tokenizer(tmp_path, content):
    pytest.importorskip("tokenizers")
    (tmp_path / "t.txt").write_text("x")
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(UserError, match=r"data.tokenizer"):
        read(tmp_path / "t.txt", tokenizer=str(tmp_path / "tokenizer.json"))
    with pytest.raises(UserError, match=r"data.tokenizer: expected 'bytes' or the path of a tokenizer.json"):
        read(tmp_path / "t.txt", tokenizer="llama")


@pytest.mark.parametrize(("package", "setting"), [("tokenizers", "data.tokenizer"), ("datasets", "data.path")])
def test_a_package_that_is_not_installed_is_named_with_its_command(tmp_path, monkeypatch, package, setting):
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "state.json").write_text("{}")
    path = tmp_path / ("saved" if package == "datasets" else "tokenizer.json")
    tokenizer = "bytes" if package == "datasets" else str(path)
    with pytest.raises(UserError, match=f"{setting}: .* needs the package '{package}': ") as refused:
        read(path, tokenizer=tokenizer)
    assert str(refused.value).endswith(pip_command("install", package))


@pytest.mark.parametrize(("code", "dtype"), [(1, "u1"), (4, "<i4"), (5, "<i8"), (8, "<u2")])
def test_megatron_by_either_name_or_stem(tmp_path, code, dtype):
    stem = megatron(tmp_path / "corpus", [[1, 2, 3], [], [4], [5, 6]], code, dtype)
    for path in (stem, stem.with_suffix(".bin"), stem.with_suffix(".idx")):
        assert read(path) == [1, 2, 3, 4, 5, 6]
    assert read(megatron(tmp_path / "none", [])) == []


@given(cut=st.integers(0, 70), flip=st.tuples(st.integers(0, 69), st.integers(1, 255)) | st.none())
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_damaged_megatron_index_never_reads_out_of_bounds(tmp_path, cut, flip):
    index = megatron(tmp_path / "c", [[1, 2, 3], [4]]).with_suffix(".idx")
    content = bytearray(index.read_bytes())
    if flip is not None and flip[0] < len(content):
        content[flip[0]] ^= flip[1]
    index.write_bytes(content[: len(content) - min(cut, len(content))])
    try:
        tokens = megatron_tokens(tmp_path / "c")
    except UserError:
        return
    assert tokens.nbytes == (tmp_path / "c.bin").stat().st_size


@pytest.mark.parametrize(
    ("change", "message"), [({"version": 2}, "expected MMIDIDX version 1, found 2"), ({"code": 7}, "code of .*found 7")]
)
def test_megatron_of_another_kind(tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        read(megatron(tmp_path / "c", [[1]], **change))


def test_a_megatron_pair_of_which_a_part_is_missing(tmp_path):
    stem = megatron(tmp_path / "c", [[1, 2, 3], [4]])
    stem.with_suffix(".bin").write_bytes(b"\x01\x00")
    with pytest.raises(UserError, match=r"describes 8 bytes of data; the .bin file has 2"):
        read(stem)
    stem.with_suffix(".idx").write_bytes(b"")
    with pytest.raises(UserError, match=r"c.idx: expected a Megatron index"):
        read(stem.with_suffix(".bin"))
    stem.with_suffix(".idx").unlink()
    with pytest.raises(UserError, match=r"c.idx is missing"):
        read(stem.with_suffix(".bin"))


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        guess_format(tmp_path / "none.txt")
    with pytest.raises(UserError, match="is a folder that datasets"):
        guess_format(tmp_path)
    with pytest.raises(UserError, match=r"data.path: .*none.txt: No such file"):
        read(tmp_path / "none.txt", format="text")
    with pytest.raises(UserError, match=r"data.path: ~nobody-here/x: "):
        read("~nobody-here/x")
    with pytest.raises(UserError, match=r"data set 'openwebtext' is read from a local file: --set data.path=FILE"):
        read_tokens("openwebtext", DataSource())


@pytest.mark.slow
def test_hugging_face_data_sets_saved_to_disk(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict({"input_ids": [[1, 2], [], [3]]}).save_to_disk(tmp_path / "ids")
    assert read(tmp_path / "ids") == [1, 2, 3]
    texts = datasets.Dataset.from_dict({"text": ["a", "bc"]})
    texts.select([1]).save_to_disk(tmp_path / "text")
    assert read(tmp_path / "text") == [98, 99, 256]
    splits = datasets.DatasetDict({"train": texts, "test": texts})
    splits.save_to_disk(tmp_path / "splits")
    assert read(tmp_path / "splits") == [97, 256, 98, 99, 256]
    datasets.Dataset.from_dict({"label": [1]}).save_to_disk(tmp_path / "other")
    with pytest.raises(UserError, match="expected a column 'input_ids' or 'text', found: label"):
        read(tmp_path / "other")
    datasets.Dataset.from_dict({"input_ids": [[-1]]}).save_to_disk(tmp_path / "negative")
    with pytest.raises(UserError, match="expected rows of token ids"):
        read(tmp_path / "negative")


READER = """
import sys
from llmperf.tokens.sources import read_tokens
from llmperf.types import DataSource
print(read_tokens("mine", DataSource(path=sys.argv[1])).ids.sum())
"""


@pytest.mark.slow
def test_ranks_that_start_at_once_share_one_cache_file(tmp_path):
    (tmp_path / "t.txt").write_text("all at once\n" * 200_000)
    command = [sys.executable, "-c", READER, str(tmp_path / "t.txt")]
    ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) for _ in range(3)]
    said = {rank.communicate(timeout=60)[0] for rank in ranks}
    assert len(said) == 1
    assert next(iter(said)).strip().isdigit()
    made = [path.name for path in (tmp_path / "cache" / "tokens").iterdir()]
    assert sorted(name.rpartition(".")[2] for name in made) == ["ids", "lock", "sha256"]


def test_kept_tokens_that_were_changed_are_made_again(tmp_path):
    (tmp_path / "t.txt").write_text("the same tokens each time\n" * 100_000)
    before = read(tmp_path / "t.txt")
    (kept,) = (tmp_path / "cache" / "tokens").glob("*.ids")
    with kept.open("r+b") as file:
        file.seek(1000)
        file.write(bytes(5000))
    assert read(tmp_path / "t.txt") == before


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(UserError, match="LLMPERF_CACHE_DIR: cannot write tokens"):
        read(tmp_path / "file")


@pytest.mark.slow
def test_the_python_library_is_text_of_this_host():
    text = bytes(read_tokens("python-stdlib", DataSource()).ids[:1000].astype("u1"))
    assert text.isascii() or text.decode(errors="ignore")
