"""Encoders from text to token ids: bytes, or a local `tokenizer.json`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from llmperf.errors import UserError
from llmperf.files.json_files import read_bytes
from llmperf.tokens.data_sets import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

BYTES = "bytes"
END_OF_DOCUMENT = 256
END_TOKENS = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "[SEP]")
PIECE_CHARACTERS = 1 << 16


class Encoder(Protocol):
    """Turns text into ids."""

    identity: str
    """Identifies the encoder: encoders that give different ids have different identities."""
    dtype: str
    end: tuple[int, ...]
    """Appended to each document: the id of the end token, or nothing if the tokenizer has no such token."""
    begin: tuple[int, ...]
    """Ids that the tokenizer puts before a text; documents for training do not have them."""

    def encode(self, text: str) -> NDArray[np.integer]:
        """The ids of a text, without tokens for its beginning and end."""


class ByteEncoder:
    """UTF-8 bytes as ids 0 to 255, and 256 at the end of each document."""

    identity = BYTES
    dtype = "<u2"
    end: tuple[int, ...] = (END_OF_DOCUMENT,)
    begin: tuple[int, ...] = ()

    def encode(self, text: str) -> NDArray[np.integer]:
        """One id for each byte."""
        return np.frombuffer(text.encode(), dtype=np.uint8)


class FileEncoder:
    """A `tokenizer.json`, read by the `tokenizers` library.

    Long texts are cut at line ends, so that the library encodes many pieces in parallel.
    """

    def __init__(self, path: Path) -> None:
        content = read_bytes(path)
        self.identity = hashlib.sha256(content).hexdigest()
        self._tokenizer = _parse(path, content)
        self.dtype = "<u2" if self._tokenizer.get_vocab_size() <= 2**16 else "<u4"
        ends = (self._tokenizer.token_to_id(token) for token in END_TOKENS)
        self.end = tuple(end for end in ends if end is not None)[:1]
        plain = self._tokenizer.encode("a", add_special_tokens=False).ids
        marked = self._tokenizer.encode("a", add_special_tokens=True).ids
        self.begin = tuple(marked[: marked.index(plain[0])]) if plain and plain[0] in marked else ()

    def encode(self, text: str) -> NDArray[np.integer]:
        """The ids of a text, no special tokens added."""
        encoded = self._tokenizer.encode_batch(pieces(text, PIECE_CHARACTERS), add_special_tokens=False)
        return np.array([token for piece in encoded for token in piece.ids], dtype=np.int64)


def _parse(path: Path, content: bytes) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        from llmperf.plugins.mending import pip_command

        raise DataError(
            "data.tokenizer",
            f"reading a tokenizer.json needs the package 'tokenizers': {pip_command('install', 'tokenizers')}",
        ) from None
    try:
        return Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises plain Exception
        raise DataError("data.tokenizer", f"{path} is not a tokenizer.json: {error}") from None


def pieces(text: str, longest: int) -> list[str]:
    """A text cut at line ends into pieces of about `longest` characters."""
    cut, start = [], 0
    while start < len(text):
        end = text.find("\n", start + longest) + 1 or len(text)
        cut.append(text[start:end])
        start = end
    return cut


def open_encoder(tokenizer: str) -> Encoder:
    """The encoder for `data.tokenizer`: `bytes`, or the path of a `tokenizer.json` or of its folder."""
    if tokenizer == BYTES:
        return ByteEncoder()
    path = Path(tokenizer).expanduser()
    path = path / "tokenizer.json" if path.is_dir() else path
    try:
        return FileEncoder(path)
    except DataError:
        raise
    except UserError as error:
        raise DataError("data.tokenizer", f"expected 'bytes' or the path of a tokenizer.json; {error}") from None
