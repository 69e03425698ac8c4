"""Tokens of a data set by its name and by the format of its file, and Megatron's indexed data sets."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from llmperf import open_regular
from llmperf.errors import DataError
from llmperf.types import DataSource, ReadTokens
from numpy.typing import NDArray

from llmperf_datasets.samsum import SAMSUM, record_tokens, samsum_file
from llmperf_datasets.text import huggingface_tokens, open_encoder, python_library, text_file

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
        if kind == "megatron":
            return ReadTokens(setting="data.path", ids=megatron_tokens(path))
        tokenised = huggingface_tokens if kind == "huggingface" else text_file
        return ReadTokens(setting="data.path", ids=tokenised(path, open_encoder(data.tokenizer)))
    except OSError as error:
        raise DataError("data.path", f"{error.filename or path}: {error.strerror or error}") from None


def guess_format(path: Path) -> str:
    """The format of a path by its suffix and content; DataError if it does not exist."""
    if path.suffix in (".bin", ".idx") or all(file.is_file() for file in megatron_paths(path)):
        return "megatron"
    if path.is_dir():
        if any((path / name).is_file() for name in SAVED):
            return "huggingface"
        raise DataError("data.path", f"{path} is a folder that datasets.save_to_disk did not write; name a file")
    if not path.exists():
        raise DataError("data.path", f"{path} does not exist")
    return "text"


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
