"""Hugging Face data sets that were saved to disk, as tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llmperf.tokens.cache import cached_tokens, file_digest
from llmperf.tokens.encoders import Encoder
from llmperf.tokens.problems import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MARKERS = ("dataset_info.json", "state.json", "dataset_dict.json")
ROWS = 1000


def is_saved_dataset(folder: Path) -> bool:
    """Whether `datasets.load_from_disk` would know this folder."""
    return any((folder / marker).is_file() for marker in MARKERS)


def huggingface_tokens(folder: Path, encoder: Encoder) -> Path:
    """The tokens of a folder that `save_to_disk` wrote: its `input_ids`, or its `text`, encoded."""

    def parts() -> Iterator[NDArray[np.integer]]:
        dataset = _load(folder)
        column = next((name for name in ("input_ids", "text") if name in dataset.column_names), None)
        if column is None:
            found = ", ".join(dataset.column_names) or "none"
            raise DataError("data.path", f"{folder}: expected a column 'input_ids' or 'text', found: {found}")
        for start in range(0, len(dataset), ROWS):
            for row in dataset[start : start + ROWS][column]:
                yield from _row(row, encoder, folder)

    return cached_tokens(["huggingface", _folder_digest(folder), encoder.identity], "<u4", parts)


def _row(row: Any, encoder: Encoder, folder: Path) -> Iterator[NDArray[np.integer]]:
    if isinstance(row, str):
        yield encoder.encode(row)
        yield np.array(encoder.end, dtype=np.int64)
        return
    ids = np.asarray(row)
    if ids.ndim != 1 or (ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= 2**32)):
        raise DataError("data.path", f"{folder}: expected rows of token ids or of text, found {str(row)[:60]!r}")
    yield ids


def _load(folder: Path) -> Any:
    try:
        from datasets import Dataset, load_from_disk
    except ImportError:
        raise DataError(
            "data.path",
            f"{folder}: reading it needs the package 'datasets': uv pip install datasets",
        ) from None
    try:
        loaded = load_from_disk(str(folder))
    except Exception as error:  # the library lets through whatever its readers raise
        raise DataError("data.path", f"{folder}: datasets.load_from_disk: {str(error)[:200]}") from None
    if isinstance(loaded, Dataset):
        return loaded
    if "train" not in loaded:
        raise DataError("data.path", f"{folder} has no split 'train'; name one of its folders: {', '.join(loaded)}")
    return loaded["train"]


def _folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{file_digest(path)}\0".encode())
    return digest.hexdigest()
