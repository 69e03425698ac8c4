"""Text as tokens: encoders, a UTF-8 file, the sources of this host's Python library, a saved Hugging Face data set."""

from __future__ import annotations

import codecs
import fcntl
import hashlib
import os
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from llmperf import cache_dir, open_regular, pip_command, read_bytes, write_bytes
from llmperf.errors import DataError, UserError
from numpy.typing import NDArray

READ_BYTES = 1 << 20


def cached_tokens(
    key: Iterable[str], dtype: str, parts: Callable[[], Iterable[NDArray[np.integer]]]
) -> NDArray[np.integer]:
    """A memory-mapped token stream, written from `parts` unless the cache has the content that was written.

    `key` holds the digests of everything that the tokens depend on. Ranks that start together wait for the first.
    """
    folder = cache_dir("tokens")
    path = folder / f"{hashlib.sha256(chr(0).join([dtype, *key]).encode()).hexdigest()}.ids"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_whole(path):
            with path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # ends with its process, so that it never blocks a later run
                if not _is_whole(path):
                    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name}.")
                    try:
                        with os.fdopen(handle, "wb") as file:
                            for part in parts():
                                file.write(part.astype(dtype, copy=False).tobytes())
                            file.flush()
                            os.fsync(file.fileno())
                        # the sum first: without it, a file is written again
                        write_bytes(path.with_suffix(".sha256"), file_digest(Path(name)).encode())
                        os.replace(name, path)
                    finally:
                        Path(name).unlink(missing_ok=True)
        return np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype=dtype)
    except OSError as error:
        raise DataError("LLMPERF_CACHE_DIR", f"cannot write tokens to {folder}: {error.strerror or error}") from None


def _is_whole(path: Path) -> bool:
    """Check whether a file is there with the content that was written."""
    try:
        return path.with_suffix(".sha256").read_text(errors="replace") == file_digest(path)
    except FileNotFoundError:
        return False


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content; for large files, cached by path, size and modification time."""
    facts = path.stat()
    identity = f"{path.resolve()}\0{facts.st_size}\0{facts.st_mtime_ns}\0{facts.st_ino}"
    memo = cache_dir("digests") / hashlib.sha256(identity.encode()).hexdigest()
    if memo.exists() and len(known := memo.read_text(errors="replace")) == 64:
        return known
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
    if facts.st_size > READ_BYTES:
        with suppress(OSError, UserError):  # a cache that cannot be written only costs time
            memo.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(memo, digest.hexdigest().encode())
    return digest.hexdigest()


NOT_THE_LIBRARY = {"site-packages", "dist-packages", "__pycache__"}
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
    """The encoder for `data.tokenizer`: `bytes` (UTF-8, and 256 at the end), or the path of a `tokenizer.json`."""
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


def encoded(documents: Iterable[str], encoder: Encoder) -> Iterator[NDArray[np.integer]]:
    """The ids of documents, each followed by the tokenizer's end token."""
    for text in documents:
        yield encoder.encode(text)
        yield np.array(encoder.end, dtype=np.int64)


def text_file(path: Path, encoder: Encoder) -> NDArray[np.integer]:
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


def python_library(tokenizer: str) -> NDArray[np.integer]:
    """The tokens of this host's Python library: every `*.py` that is UTF-8, by name, each a document."""
    encoder, folder = open_encoder(tokenizer), Path(sysconfig.get_paths()["stdlib"])
    texts, digest = [], hashlib.sha256()
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


def huggingface_tokens(folder: Path, encoder: Encoder) -> NDArray[np.integer]:
    """The tokens of a folder that `save_to_disk` wrote: its `input_ids`, or its `text`, encoded."""

    def parts() -> Iterator[NDArray[np.integer]]:
        dataset = _load(folder)
        column = next((name for name in ("input_ids", "text") if name in dataset.column_names), None)
        if column is None:
            found = ", ".join(dataset.column_names) or "none"
            raise DataError("data.path", f"{folder}: expected a column 'input_ids' or 'text', found: {found}")
        rows = (row for start in range(0, len(dataset), 1000) for row in dataset[start : start + 1000][column])
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
