"""Text as tokens: a UTF-8 file, the sources of this host's Python library, or a saved Hugging Face data set."""

from __future__ import annotations

import codecs
import hashlib
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llmperf.files.json_files import open_regular
from llmperf.tokens.cache import READ_BYTES, cached_tokens, file_digest
from llmperf.tokens.data_sets import DataError
from llmperf.tokens.encoders import Encoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOT_THE_LIBRARY = {"site-packages", "dist-packages", "__pycache__"}
ROWS = 1000


def encoded(documents: Iterable[str], encoder: Encoder) -> Iterator[NDArray[np.integer]]:
    """The ids of documents, each followed by the tokenizer's end token."""
    for text in documents:
        yield encoder.encode(text)
        yield np.array(encoder.end, dtype=np.int64)


def text_file(path: Path, encoder: Encoder) -> Path:
    """The tokens of a UTF-8 text file, one document; DataError if it is not UTF-8."""

    def parts() -> Iterator[NDArray[np.integer]]:
        decoder, held, block = codecs.getincrementaldecoder("utf-8")(), "", b"any"
        with open_regular(path) as file:
            while block:
                block, kept = file.read(READ_BYTES), len(decoder.getstate()[0])
                try:
                    text = held + decoder.decode(block, final=not block)
                except UnicodeDecodeError as error:
                    where = f"byte {file.tell() - len(block) - kept + error.start} ({error.reason})"
                    message = f"{path} is not UTF-8 text: {where}; is data.format right?"
                    raise DataError("data.path", message) from None
                end = text.rfind("\n") + 1 if block else 0  # whole lines are encoded together
                held = text[end or len(text) :]
                yield encoder.encode(text[: end or len(text)])
        yield np.array(encoder.end, dtype=np.int64)

    return cached_tokens(["text", file_digest(path), encoder.identity], encoder.dtype, parts)


def python_library(encoder: Encoder) -> Path:
    """The tokens of this host's Python library: every `*.py` that is UTF-8, by name, each a document."""
    folder, texts, digest = Path(sysconfig.get_paths()["stdlib"]), [], hashlib.sha256()
    names = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    for _, path in sorted(names.items()):
        if NOT_THE_LIBRARY.isdisjoint(path.relative_to(folder).parts):
            with suppress(OSError, UnicodeDecodeError):  # some test files use other encodings on purpose
                texts.append(path.read_bytes().decode("utf-8"))
    if not texts:
        raise DataError("contract.dataset", "this Python has no library sources on disk; use 'synthetic' instead")
    for text in texts:
        digest.update(hashlib.sha256(text.encode()).digest())
    key = ["python", digest.hexdigest(), encoder.identity]
    return cached_tokens(key, encoder.dtype, lambda: encoded(texts, encoder))


def huggingface_tokens(folder: Path, encoder: Encoder) -> Path:
    """The tokens of a folder that `save_to_disk` wrote: its `input_ids`, or its `text`, encoded."""

    def parts() -> Iterator[NDArray[np.integer]]:
        dataset = _load(folder)
        column = next((name for name in ("input_ids", "text") if name in dataset.column_names), None)
        if column is None:
            found = ", ".join(dataset.column_names) or "none"
            raise DataError("data.path", f"{folder}: expected a column 'input_ids' or 'text', found: {found}")
        rows = (row for start in range(0, len(dataset), ROWS) for row in dataset[start : start + ROWS][column])
        for row in rows:
            if isinstance(row, str):
                yield from encoded([row], encoder)
                continue
            ids = np.asarray(row)
            if ids.ndim != 1 or (ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= 2**32)):
                message = f"{folder}: expected rows of token ids or of text, found {str(row)[:60]!r}"
                raise DataError("data.path", message)
            yield ids

    digest = hashlib.sha256()
    for path in sorted(filter(Path.is_file, folder.rglob("*"))):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{file_digest(path)}\0".encode())
    return cached_tokens(["huggingface", digest.hexdigest(), encoder.identity], "<u4", parts)


def _load(folder: Path) -> Any:
    try:
        from datasets import Dataset, load_from_disk
    except ImportError:
        from llmperf.plugins.mending import pip_command

        raise DataError(
            "data.path", f"{folder}: reading it needs the package 'datasets': {pip_command('install', 'datasets')}"
        ) from None
    try:
        loaded = load_from_disk(str(folder))
    except Exception as error:  # any exception of its readers may get here
        raise DataError("data.path", f"{folder}: datasets.load_from_disk: {str(error)[:200]}") from None
    if isinstance(loaded, Dataset):
        return loaded
    if "train" not in loaded:
        raise DataError("data.path", f"{folder} has no split 'train'; name one of its folders: {', '.join(loaded)}")
    return loaded["train"]
