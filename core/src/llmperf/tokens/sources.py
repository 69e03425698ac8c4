"""Opens `contract.dataset` and `[data]` as samples with random access."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from llmperf.tokens.arrays import megatron_paths, megatron_tokens, npy_tokens
from llmperf.tokens.data_sets import PYTHON_STDLIB, SYNTHETIC, DataError, local_path, synthetic_fingerprint
from llmperf.tokens.draws import SampleOrder, raw_uint64, sample_bounds, sample_count, tokens_needed
from llmperf.tokens.encoders import open_encoder
from llmperf.tokens.padding import SAMSUM, open_padded, record_tokens, samsum_file
from llmperf.tokens.text import huggingface_tokens, is_saved_dataset, python_library, text_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmperf.types import Batch, DataSource, RunSpec


SCANNED_TOKENS = 2**26
"""Streams of up to this length are checked for invalid ids when they are opened; longer streams batch by batch."""
FINGERPRINT_BLOCKS = 64
FINGERPRINT_TOKENS = 4096


class Samples(Protocol):
    """The samples of a run in their order."""

    @property
    def where(self) -> str:
        """The setting that selects the data."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 that identifies the data."""

    def at(self, place: int) -> NDArray[np.int64]:
        """The sample at a place of the global order, int64 [seq_len + 1]."""

    def learnt(self, place: int) -> int:
        """The number of predicted tokens of that sample: seq_len without padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSamples:
    """A stream of tokens, cut into samples of seq_len + 1 tokens; neighbouring samples share a token."""

    where: str
    tokens: NDArray[np.integer]
    seq_len: int
    order: SampleOrder
    repeat: bool

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the length and blocks spread over the stream."""
        digest = hashlib.sha256(f"stream/v1/{len(self.tokens)}".encode())
        last = max(0, len(self.tokens) - FINGERPRINT_TOKENS)
        for start in sorted({last * block // (FINGERPRINT_BLOCKS - 1) for block in range(FINGERPRINT_BLOCKS)}):
            digest.update(self.tokens[start : start + FINGERPRINT_TOKENS].astype("<i8").tobytes())
        return digest.hexdigest()

    def at(self, place: int) -> NDArray[np.int64]:
        """The sample at a place of the global order; DataError after the last sample, unless data are repeated."""
        if place >= self.order.samples and not self.repeat:
            raise DataError(self.where, f"its {self.order.samples} samples have been used up; --set data.repeat=true")
        start, stop = sample_bounds(self.order[place], self.seq_len)
        return self.tokens[start:stop].astype(np.int64)

    def learnt(self, place: int) -> int:
        """All tokens: nothing is padded."""
        return self.seq_len


def open_samples(spec: RunSpec, batch: Batch | None) -> Samples:
    """The samples of a run; DataError if they cannot be read, are too few for its steps, or have invalid ids.

    Without `batch`, their number is not checked.
    """
    if spec.contract.dataset in (SYNTHETIC, PYTHON_STDLIB) and spec.data.path is not None:
        raise DataError(
            "data.path", f"data set {spec.contract.dataset!r} reads no file; to read one, --set contract.dataset=NAME"
        )
    if spec.contract.packing == "padded":
        padded = open_padded(spec, batch)
        check_ids(padded.where, padded.tokens, spec.model.vocab_size)
        return padded
    if spec.contract.dataset == SYNTHETIC:
        return SyntheticTokens(spec.model.vocab_size, spec.contract.seq_len, spec.contract.seed)
    where, tokens = open_stream(spec.contract.dataset, spec.data)
    _check_length(where, len(tokens), spec, batch)
    if len(tokens) <= SCANNED_TOKENS:
        check_ids(where, tokens, spec.model.vocab_size)
    order = SampleOrder(sample_count(len(tokens), spec.contract.seq_len), spec.contract.seed)
    return PackedSamples(
        where=where, tokens=tokens, seq_len=spec.contract.seq_len, order=order, repeat=spec.data.repeat
    )


def open_stream(dataset: str, data: DataSource) -> tuple[str, NDArray[np.integer]]:
    """The setting that selects a data set, and its tokens."""
    if dataset == PYTHON_STDLIB:
        return "contract.dataset", npy_tokens(python_library(open_encoder(data.tokenizer)))
    if data.path is None:
        raise DataError(
            "data.path",
            f"data set {dataset!r} is read from a local file: --set data.path=FILE;"
            " to try without: --set dataset=synthetic (or python-stdlib), a variant",
        )
    path = local_path(data.path)
    if dataset == SAMSUM and data.format == "auto" and (file := _records_of(path)):
        return "data.path", npy_tokens(record_tokens(file, open_encoder(data.tokenizer)))
    kind = guess_format(path) if data.format == "auto" else data.format
    return "data.path", _read(kind, path, data.tokenizer)


def _records_of(path: Path) -> Path | None:
    """SAMSum's file of records; None for a file of tokens. DataError for a text file, which has no records."""
    file = samsum_file(path)
    if file is None and guess_format(path) == "text":
        raise DataError("data.path", f"{path}: samsum is read from .json, .jsonl or .csv, or as tokens (.npy, .bin)")
    return file


def _read(kind: str, path: Path, tokenizer: str) -> NDArray[np.integer]:
    try:
        if kind == "npy":
            return npy_tokens(path)
        if kind == "megatron":
            return megatron_tokens(path)
        if kind == "huggingface":
            return npy_tokens(huggingface_tokens(path, open_encoder(tokenizer)))
        return npy_tokens(text_file(path, open_encoder(tokenizer)))
    except OSError as error:
        raise DataError("data.path", f"{error.filename or path}: {error.strerror or error}") from None


def guess_format(path: Path) -> str:
    """The format of a path by its suffix and content; DataError if it does not exist."""
    if path.suffix in (".bin", ".idx") or all(file.is_file() for file in megatron_paths(path)):
        return "megatron"
    if path.is_dir():
        if is_saved_dataset(path):
            return "huggingface"
        raise DataError("data.path", f"{path} is a folder that datasets.save_to_disk did not write; name a file")
    if not path.exists():
        raise DataError("data.path", f"{path} does not exist")
    return "npy" if path.suffix == ".npy" else "text"


def _check_length(where: str, tokens: int, spec: RunSpec, batch: Batch | None) -> None:
    seq_len = spec.contract.seq_len
    wanted = 1 if batch is None or spec.data.repeat else spec.contract.steps * batch.global_batch
    samples = sample_count(tokens, seq_len)
    if samples >= wanted:
        return
    found = f"{tokens} tokens, {samples} samples of {seq_len}"
    needed = f"{found}; {wanted} samples need {tokens_needed(wanted, seq_len)} tokens"
    if batch is None or samples == 0:
        raise DataError(where, f"too short: {needed}")
    steps = samples // batch.global_batch
    fewer = f", or --set contract.steps={steps}" if steps else ""
    raise DataError(
        where,
        f"too short: {needed} ({spec.contract.steps} steps x global batch {batch.global_batch});"
        f" --set data.repeat=true{fewer}",
    )


def check_ids(where: str, tokens: NDArray[np.integer], vocab_size: int) -> None:
    """DataError for an id outside the model's vocabulary."""
    for start in range(0, len(tokens), SCANNED_TOKENS // 16):
        part = tokens[start : start + SCANNED_TOKENS // 16]
        low, high = int(part.min()), int(part.max())
        if low < 0 or high >= vocab_size:
            invalid = low if low < 0 else high
            raise DataError(where, f"token id {invalid} is outside the model's vocabulary, 0 to {vocab_size - 1}")


LARGEST_STEP = 8
STREAM = "data/synthetic"


def _step_table() -> NDArray[np.int64]:
    """Steps for each byte: 1 + the trailing zeros of its low seven bits, or 8 if all seven are zero."""
    bits = np.arange(256)[:, None] >> np.arange(7) & 1
    return np.where(bits.any(axis=1), bits.argmax(axis=1) + 1, LARGEST_STEP).astype(np.int64)


STEPS = _step_table()


class SyntheticTokens:
    """Endless sequences with random access: each depends on the seed and its index only."""

    def __init__(self, vocab_size: int, seq_len: int, seed: int) -> None:
        if vocab_size < LARGEST_STEP:
            raise DataError(
                "contract.dataset",
                f"'synthetic' needs a vocabulary of {LARGEST_STEP} or more; model.vocab_size is {vocab_size}",
            )
        self._vocab_size = vocab_size
        self._seq_len = seq_len
        self._seed = seed
        shuffled = raw_uint64(seed, f"{STREAM}/permutation", 0, vocab_size)
        self._permutation = np.argsort(shuffled, kind="stable").astype(np.int64)

    where = "contract.dataset"

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the figures that define the sequences."""
        return synthetic_fingerprint(self._vocab_size, self._seq_len, self._seed)

    def at(self, index: int) -> NDArray[np.int64]:
        """Sequence `index`, int64 [seq_len + 1]: a word for its first token, a byte for each step."""
        words = 1 + -(-self._seq_len // 8)
        drawn = raw_uint64(self._seed, STREAM, index * words, (index + 1) * words)
        steps = STEPS[drawn[1:].astype("<u8").view(np.uint8)[: self._seq_len]]
        first = np.array([drawn[0] % np.uint64(self._vocab_size)], dtype=np.int64)
        walk = np.cumsum(np.concatenate([first, steps])) % self._vocab_size
        tokens: NDArray[np.int64] = self._permutation[walk]
        return tokens

    def learnt(self, index: int) -> int:
        """All tokens: nothing is padded."""
        return self._seq_len
