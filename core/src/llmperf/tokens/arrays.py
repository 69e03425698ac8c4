"""Files of token ids, memory-mapped: `.npy` arrays and Megatron's indexed data sets."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from llmperf.files.json_files import open_regular
from llmperf.tokens.data_sets import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Tokens = NDArray[np.integer]

MEGATRON_MAGIC = b"MMIDIDX\x00\x00"
MEGATRON_VERSION = 1
MEGATRON_HEADER = struct.Struct("<9sQBQQ")
MEGATRON_DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
"""Codes of Megatron-LM's `IndexedDataset`; 6 and 7 are floating point, which token ids never are."""


def npy_tokens(path: Path) -> Tokens:
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


def megatron_paths(path: Path) -> tuple[Path, Path]:
    """The `.bin` and `.idx` files for the path of either of them, or for their common path without suffix."""
    stem = str(path)[:-4] if path.suffix in (".bin", ".idx") else str(path)
    return Path(f"{stem}.bin"), Path(f"{stem}.idx")


def megatron_tokens(path: Path) -> Tokens:
    """The ids of a Megatron data set (`MMIDIDX`, version 1), all sequences joined; DataError if a file is damaged."""
    data, index = megatron_paths(path)
    for file in (data, index):
        if not file.is_file():
            raise DataError("data.path", f"a Megatron data set is two files; {file} is missing")
    with open_regular(index) as file_of_index:
        header = file_of_index.read(MEGATRON_HEADER.size)
    if len(header) < MEGATRON_HEADER.size or header[:9] != MEGATRON_MAGIC:
        raise DataError("data.path", f"{index}: expected a Megatron index (MMIDIDX), found something else")
    _, version, code, sequences, documents = MEGATRON_HEADER.unpack(header)
    if version != MEGATRON_VERSION:
        raise DataError("data.path", f"{index}: expected MMIDIDX version {MEGATRON_VERSION}, found {version}")
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
