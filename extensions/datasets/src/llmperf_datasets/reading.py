"""Tokens of a data set by its name and by the format of its file: text, `.npy`, SAMSum, Megatron's data sets.

SAMSum (Gliwa et al. 2019) is read in its published formats, with the prompt of llama-recipes.
"""

from __future__ import annotations

import csv
import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import msgspec
import numpy as np
from llmperf import open_regular, read_bytes
from llmperf.errors import DataError, UserError
from llmperf.types import DataSource, ReadTokens
from numpy.typing import NDArray

from llmperf_datasets.text import (
    Encoder,
    cached_tokens,
    encoded,
    file_digest,
    huggingface_tokens,
    open_encoder,
    python_library,
    text_file,
)

SAMSUM = "samsum"
PROMPT = "Summarize this dialog:\n{dialog}\n---\nSummary:\n{summary}"
MAX_BYTES = 64 * 2**20
"""The published file has 10 MB; larger files are refused without reading them."""
NAMES = ("train.json", "train.jsonl", "train.csv")
"""Names of the file in a folder."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """The fields of a record that are used; its id is not read."""

    dialogue: str
    summary: str


def samsum_file(path: Path) -> Path | None:
    """The file of records for a path: the path itself, or `train.*` in a folder; None for other kinds of data."""
    if path.is_dir():
        return next((path / name for name in NAMES if (path / name).is_file()), None)
    return path if path.suffix in (".json", ".jsonl", ".csv") else None


def record_tokens(
    path: Path, encoder: Encoder, with_lengths: bool
) -> tuple[NDArray[np.integer], NDArray[np.integer] | None]:
    """The tokens of all records, joined, each followed by the tokenizer's end token; the number of these of each."""
    try:
        key = [SAMSUM, path.suffix, file_digest(path), encoder.identity]
    except OSError as error:
        raise DataError("data.path", f"{path}: {error.strerror or error}") from None

    def lengths() -> Iterator[NDArray[np.integer]]:
        for text in read_dialogues(path):
            yield np.array([len(encoder.encode(text)) + len(encoder.end)], dtype=np.int64)

    tokens = cached_tokens(key, encoder.dtype, lambda: encoded(read_dialogues(path), encoder))
    return tokens, cached_tokens([*key, "lengths"], "<u4", lengths) if with_lengths else None


def read_dialogues(path: Path) -> list[str]:
    """The texts of a `.json` list, a `.jsonl` file or a `.csv` with a header; DataError that names the line."""
    try:
        content = read_bytes(path, MAX_BYTES)
    except UserError as error:
        raise DataError("data.path", str(error)) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError("data.path", f"{path}, line {line}: not UTF-8 text ({error.reason})") from None
    records = list(_csv(text, path) if path.suffix == ".csv" else _json(text, path))
    if not records:
        raise DataError("data.path", f"{path} holds no records")
    return [PROMPT.format(dialog=record.dialogue, summary=record.summary) for record in records]


def _json(text: str, path: Path) -> Iterator[Dialogue]:
    rows: list[tuple[str, str | msgspec.Raw]]
    if path.suffix == ".jsonl":
        rows = [(f"line {number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    else:
        try:
            items = msgspec.json.decode(text, type=list[msgspec.Raw])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise DataError("data.path", f"{path}: expected a list of records: {error}") from None
        rows = [(f"record {number}", item) for number, item in enumerate(items, 1)]
    for place, row in rows:
        try:
            yield msgspec.json.decode(row, type=Dialogue)
        except (msgspec.MsgspecError, RecursionError) as error:
            message = f"{path}, {place}: expected texts 'dialogue' and 'summary': {error}"
            raise DataError("data.path", message) from None


def _csv(text: str, path: Path) -> Iterator[Dialogue]:
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = rows.fieldnames or ()
        if missing := [name for name in ("dialogue", "summary") if name not in columns]:
            found = ", ".join(columns)[:200] or "none"
            raise DataError("data.path", f"{path}, line 1: expected columns {' and '.join(missing)}, found: {found}")
        for row in rows:
            if row["dialogue"] is None or row["summary"] is None or None in row:
                raise DataError("data.path", f"{path}, line {rows.line_num}: expected {len(columns)} columns")
            yield Dialogue(row["dialogue"], row["summary"])
    except csv.Error as error:
        raise DataError("data.path", f"{path}, line {rows.reader.line_num}: {error}") from None


SAVED = ("dataset_info.json", "state.json", "dataset_dict.json")
"""Files in the folders that `datasets.load_from_disk` can read."""


def read_tokens(dataset: str, data: DataSource, records: bool) -> ReadTokens | None:
    """The tokens of a data set; None without a path, and for records of anything but SAMSum."""
    if dataset == "python-stdlib":
        return None if records else ReadTokens(setting="contract.dataset", ids=python_library(data.tokenizer))
    if data.path is None:
        return None
    path, samsum = Path(data.path), dataset == SAMSUM and data.format == "auto"
    if samsum and (file := samsum_file(path)) is not None:
        ids, lengths = record_tokens(file, open_encoder(data.tokenizer), records)
        return ReadTokens(setting="data.path", ids=ids, record_lengths=lengths)
    if records:
        return None
    kind = guess_format(path) if data.format == "auto" else data.format
    if samsum and kind == "text":
        raise DataError("data.path", f"{path}: samsum is read from .json, .jsonl or .csv, or as tokens (.npy, .bin)")
    try:
        if kind == "npy":
            return ReadTokens(setting="data.path", ids=npy_tokens(path))
        if kind == "megatron":
            return ReadTokens(setting="data.path", ids=megatron_tokens(path))
        tokenised = huggingface_tokens if kind == "huggingface" else text_file
        return ReadTokens(setting="data.path", ids=tokenised(path, open_encoder(data.tokenizer)))
    except OSError as error:
        raise DataError("data.path", f"{error.filename or path}: {error.strerror or error}") from None


def guess_format(path: Path) -> str:
    """The format of a path by its suffix and content; DataError if it does not exist."""
    if path.suffix == ".npy" and path.is_file():
        return "npy"
    if path.suffix in (".bin", ".idx") or all(file.is_file() for file in megatron_paths(path)):
        return "megatron"
    if path.is_dir():
        if any((path / name).is_file() for name in SAVED):
            return "huggingface"
        raise DataError("data.path", f"{path} is a folder that datasets.save_to_disk did not write; name a file")
    if not path.exists():
        raise DataError("data.path", f"{path} does not exist")
    return "text"


def npy_tokens(path: Path) -> NDArray[np.integer]:
    """The ids in a `.npy` file of shape [tokens] or [rows, tokens], flattened; DataError for any other content."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError, SyntaxError, BadZipFile) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError("data.path", f"{path} is not a readable .npy file: {reason}") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or array.ndim not in (1, 2):
        found = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else "an archive"
        raise DataError("data.path", f"{path}: expected integers of one or two dimensions, found {found}")
    if not array.flags.c_contiguous:
        raise DataError(
            "data.path", f"{path}: expected C order, found Fortran order; save it with np.ascontiguousarray"
        )
    return array.reshape(-1)


MEGATRON_HEADER = struct.Struct("<9sQBQQ")
MEGATRON_DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
"""Codes of Megatron-LM's `IndexedDataset`; 6 and 7 are floating point, which token ids never are."""


def megatron_paths(path: Path) -> tuple[Path, Path]:
    """The `.bin` and `.idx` files for the path of either of them, or for their common path without suffix."""
    stem = str(path)[:-4] if path.suffix in (".bin", ".idx") else str(path)
    return Path(f"{stem}.bin"), Path(f"{stem}.idx")


def megatron_tokens(path: Path) -> NDArray[np.integer]:
    """The ids of a Megatron data set (`MMIDIDX`, version 1), all sequences joined; DataError if a file is damaged."""
    data, index = megatron_paths(path)
    for file in (data, index):
        if not file.is_file():
            raise DataError("data.path", f"a Megatron data set is two files; {file} is missing")
    with open_regular(index) as file_of_index:
        header = file_of_index.read(MEGATRON_HEADER.size)
    if len(header) < MEGATRON_HEADER.size or header[:9] != b"MMIDIDX\x00\x00":
        raise DataError("data.path", f"{index}: expected a Megatron index (MMIDIDX), found something else")
    _, version, code, sequences, documents = MEGATRON_HEADER.unpack(header)
    if version != 1:
        raise DataError("data.path", f"{index}: expected MMIDIDX version 1, found {version}")
    if code not in MEGATRON_DTYPES:
        raise DataError("data.path", f"{index}: expected a dtype code of {sorted(MEGATRON_DTYPES)}, found {code}")
    middle = MEGATRON_HEADER.size + 4 * sequences  # after the lengths, before the pointers
    needed = middle + 8 * sequences + 8 * documents
    if (size := index.stat().st_size) < needed:
        raise DataError("data.path", f"{index} is cut short: {needed} bytes announced, {size} there")
    dtype = np.dtype(MEGATRON_DTYPES[code])
    mapped = np.memmap(index, dtype=np.uint8, mode="r")
    lengths = mapped[MEGATRON_HEADER.size : middle].view("<i4").astype(np.int64)
    pointers = mapped[middle : middle + 8 * sequences].view("<i8")
    ends = np.cumsum(lengths) * dtype.itemsize
    if (lengths < 0).any() or (pointers != ends - lengths * dtype.itemsize).any():
        raise DataError("data.path", f"{index}: its sequences do not follow one another in the .bin file")
    total, found = int(ends[-1]) if sequences else 0, data.stat().st_size
    if total != found:
        raise DataError("data.path", f"{index} describes {total} bytes of data; the .bin file has {found}")
    return np.memmap(data, dtype=dtype, mode="r") if total else np.zeros(0, dtype=dtype)
