"""Encoders from text to token ids: bytes, or a local `tokenizer.json`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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


@dataclass(slots=True, kw_only=True)
class Encoder:
    """Turns text into ids."""

    identity: str
    """Identifies the encoder: encoders that give different ids have different identities."""
    dtype: str
    """The narrowest dtype that holds all its ids."""
    end: tuple[int, ...]
    """Appended to each document: the id of the end token, or nothing if the tokenizer has no such token."""
    begin: tuple[int, ...]
    """Ids that the tokenizer puts before a text; documents for training do not have them."""
    encode: Callable[[str], NDArray[np.integer]]
    """The ids of a text, without tokens for its beginning and end."""


def open_encoder(tokenizer: str) -> Encoder:
    """The encoder for `data.tokenizer`: `bytes`, or the path of a `tokenizer.json` or of its folder.

    The ids of `bytes` are those of UTF-8, 0 to 255, and 256 at the end of each document.
    """
    if tokenizer == BYTES:
        return Encoder(
            identity=BYTES, dtype="<u2", end=(END_OF_DOCUMENT,), begin=(),
            encode=lambda text: np.frombuffer(text.encode(), dtype=np.uint8),
        )  # fmt: skip
    path = Path(tokenizer).expanduser()
    path = path / "tokenizer.json" if path.is_dir() else path
    try:
        content = read_bytes(path)
    except UserError as error:
        raise DataError("data.tokenizer", f"expected 'bytes' or the path of a tokenizer.json; {error}") from None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        from llmperf.plugins.mending import pip_command

        raise DataError(
            "data.tokenizer",
            f"reading a tokenizer.json needs the package 'tokenizers': {pip_command('install', 'tokenizers')}",
        ) from None
    try:
        read = Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises plain Exception
        raise DataError("data.tokenizer", f"{path} is not a tokenizer.json: {error}") from None

    def encode(text: str) -> NDArray[np.integer]:
        encoded = read.encode_batch(pieces(text, PIECE_CHARACTERS), add_special_tokens=False)
        return np.array([token for piece in encoded for token in piece.ids], dtype=np.int64)

    plain = read.encode("a", add_special_tokens=False).ids
    marked = read.encode("a", add_special_tokens=True).ids
    return Encoder(
        identity=hashlib.sha256(content).hexdigest(),
        dtype="<u2" if read.get_vocab_size() <= 2**16 else "<u4",
        end=tuple(end for end in map(read.token_to_id, END_TOKENS) if end is not None)[:1],
        begin=tuple(marked[: marked.index(plain[0])]) if plain and plain[0] in marked else (),
        encode=encode,
    )


def pieces(text: str, longest: int) -> list[str]:
    """A text cut at line ends into pieces of about `longest` characters, which the library encodes in parallel."""
    cut, start = [], 0
    while start < len(text):
        end = text.find("\n", start + longest) + 1 or len(text)
        cut.append(text[start:end])
        start = end
    return cut
