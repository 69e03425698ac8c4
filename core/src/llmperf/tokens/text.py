"""Text as tokens: one UTF-8 file, or the source text of this host's Python library."""

from __future__ import annotations

import codecs
import hashlib
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from llmperf.files.json_files import open_regular
from llmperf.tokens.cache import READ_BYTES, cached_tokens, file_digest
from llmperf.tokens.encoders import Encoder
from llmperf.tokens.problems import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOT_THE_LIBRARY = {"site-packages", "dist-packages", "__pycache__"}


def text_file(path: Path, encoder: Encoder) -> Path:
    """The tokens of a UTF-8 text file, one document; DataError if it is no UTF-8."""

    def parts() -> Iterator[NDArray[np.integer]]:
        for text in _decoded(path):
            yield encoder.encode(text)
        yield np.array(encoder.end, dtype=np.int64)

    return cached_tokens(["text", file_digest(path), encoder.identity], encoder.dtype, parts)


def _decoded(path: Path) -> Iterator[str]:
    """A file's text in blocks that end at line ends."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    held = ""
    with open_regular(path) as file:
        while block := file.read(READ_BYTES):
            text = held + _decode(decoder, block, path, file.tell() - len(block))
            end = text.rfind("\n") + 1 or len(text)
            held = text[end:]
            yield text[:end]
        yield held + _decode(decoder, b"", path, file.tell())


def _decode(decoder: codecs.IncrementalDecoder, block: bytes, path: Path, offset: int) -> str:
    kept = len(decoder.getstate()[0])
    try:
        return decoder.decode(block, final=not block)
    except UnicodeDecodeError as error:
        where = offset - kept + error.start
        raise DataError(
            "data.path", f"{path} is not UTF-8 text: byte {where} ({error.reason}); is data.format right?"
        ) from None


def python_library(encoder: Encoder) -> Path:
    """The tokens of this host's Python library: every `*.py` that is UTF-8, by name, each a document."""
    texts = list(_library_texts(Path(sysconfig.get_paths()["stdlib"])))
    if not texts:
        raise DataError("contract.dataset", "this Python has no library sources on disk; use 'synthetic' instead")
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text.encode()).digest())

    def parts() -> Iterator[NDArray[np.integer]]:
        for text in texts:
            yield encoder.encode(text)
            yield np.array(encoder.end, dtype=np.int64)

    return cached_tokens(["python", digest.hexdigest(), encoder.identity], encoder.dtype, parts)


def _library_texts(folder: Path) -> Iterator[str]:
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    for _, path in sorted(found.items()):
        if NOT_THE_LIBRARY.isdisjoint(path.relative_to(folder).parts):
            try:
                yield path.read_bytes().decode("utf-8")
            except (OSError, UnicodeDecodeError):
                continue  # a few test files are other encodings on purpose
