"""Opens `contract.dataset` and `[data]` as samples with random access."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from llmperf.tokens.arrays import megatron_paths, megatron_tokens, npy_tokens
from llmperf.tokens.data_sets import PYTHON_STDLIB, SYNTHETIC, DataError, local_path, synthetic_fingerprint
from llmperf.tokens.draws import SampleOrder, permutation, raw_uint64
from llmperf.tokens.encoders import open_encoder
from llmperf.tokens.samsum import SAMSUM, record_lengths, record_tokens, samsum_file
from llmperf.tokens.text import huggingface_tokens, python_library, text_file
from llmperf.types.plan_checks import Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmperf.types import Batch, DataSource, RunSpec


IGNORED = -100
"""Marks a padded place; the cross entropy of torch and of Paddle ignores labels with this value."""
SCANNED_TOKENS = 2**26
"""Streams of up to this length are checked for invalid ids when they are opened; longer streams batch by batch."""
FINGERPRINT_BLOCKS = 64
FINGERPRINT_TOKENS = 4096
SAVED = ("dataset_info.json", "state.json", "dataset_dict.json")
"""Files in the folders that `datasets.load_from_disk` can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSamples:
    """Samples of stored tokens: a stream cut after every seq_len tokens, or records that are cut or padded there.

    Sample i of a stream begins at token i x seq_len and has seq_len + 1 tokens: neighbours share a token.
    """

    where: str
    """The setting that selects the data."""
    tokens: NDArray[np.integer]
    starts: NDArray[np.int64] | None
    """Index of the first token of each record, and the number of all tokens; None for a stream."""
    seq_len: int
    order: SampleOrder
    repeat: bool

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all records, or over the length of a stream and blocks spread over it."""
        if self.starts is not None:
            digest = hashlib.sha256(f"records/v1/{len(self.starts)}".encode())
            digest.update(self.starts.astype("<i8").tobytes())
            digest.update(self.tokens.astype("<i8").tobytes())
            return digest.hexdigest()
        digest = hashlib.sha256(f"stream/v1/{len(self.tokens)}".encode())
        last = max(0, len(self.tokens) - FINGERPRINT_TOKENS)
        for start in sorted({last * block // (FINGERPRINT_BLOCKS - 1) for block in range(FINGERPRINT_BLOCKS)}):
            digest.update(self.tokens[start : start + FINGERPRINT_TOKENS].astype("<i8").tobytes())
        return digest.hexdigest()

    def at(self, place: int) -> NDArray[np.int64]:
        """The sample at a place of the global order, int64 [seq_len + 1]; `IGNORED` after the end of its record.

        DataError after the last sample, unless data are repeated.
        """
        start, stop = self._bounds(place)
        row = np.full(self.seq_len + 1, IGNORED, dtype=np.int64)
        row[: stop - start] = self.tokens[start:stop]
        return row

    def learnt(self, place: int) -> int:
        """The number of predicted tokens of that sample: all but its first."""
        if self.starts is None:
            return self.seq_len
        start, stop = self._bounds(place)
        return stop - start - 1

    def _bounds(self, place: int) -> tuple[int, int]:
        if place >= self.order.samples and not self.repeat:
            kind = "samples" if self.starts is None else "records"
            raise DataError(self.where, f"its {self.order.samples} {kind} have been used up; --set data.repeat=true")
        index = self.order[place]
        start = index * self.seq_len if self.starts is None else int(self.starts[index])
        stop = start + self.seq_len + 1
        return start, stop if self.starts is None else min(stop, int(self.starts[index + 1]))


def open_samples(spec: RunSpec, batch: Batch | None) -> Samples:
    """The samples of a run; DataError if they cannot be read, are too few for its steps, or have invalid ids.

    Without `batch`, their number is not checked.
    """
    contract, data = spec.contract, spec.data
    if contract.dataset in (SYNTHETIC, PYTHON_STDLIB) and data.path is not None:
        raise DataError(
            "data.path", f"data set {contract.dataset!r} reads no file; to read one, --set contract.dataset=NAME"
        )
    if contract.packing != "padded" and contract.dataset == SYNTHETIC:
        return SyntheticTokens(spec.model.vocab_size, contract.seq_len, contract.seed)
    if contract.packing == "padded":
        where, starts, tokens = "data.path", *_open_records(spec)
        samples = len(starts) - 1
    else:
        where, tokens = open_stream(contract.dataset, data)
        starts, samples = None, max(0, (len(tokens) - 1) // contract.seq_len)
    wanted = 1 if batch is None or data.repeat else contract.steps * batch.global_batch
    if samples < wanted:
        needed = f"{len(tokens)} tokens, {samples} samples of {contract.seq_len}; {wanted} samples need"
        needed = f"too short: {needed} {wanted * contract.seq_len + 1} tokens"
        if starts is not None:
            needed = f"too short: {samples} records; {contract.steps} steps need {wanted}; --set data.repeat=true"
        elif batch is not None and samples > 0:
            steps = samples // batch.global_batch
            fewer = f", or --set contract.steps={steps}" if steps else ""
            needed += f" ({contract.steps} steps x global batch {batch.global_batch}); --set data.repeat=true{fewer}"
        raise DataError(where, needed)
    if starts is not None or len(tokens) <= SCANNED_TOKENS:
        check_ids(where, tokens, spec.model.vocab_size)
    order = SampleOrder(samples, contract.seed)
    return StoredSamples(
        where=where, tokens=tokens, starts=starts, seq_len=contract.seq_len, order=order, repeat=data.repeat
    )


def check_data(spec: RunSpec, batch: Batch | None) -> tuple[Problem, ...]:
    """The problems with which `open_batches` would fail on this machine; empty if there are none.

    Reads the files, and leaves text tokenised in the cache. If `batch` is None because its arithmetic failed, the
    number of samples is not checked.
    """
    try:
        open_samples(spec, batch)
    except DataError as error:
        return (Problem(code="data_unusable", where=error.where, message=error.message),)
    return ()


def data_fingerprint(spec: RunSpec, batch: Batch | None) -> str | None:
    """SHA-256 that identifies the data of a run on this machine; None if they cannot be read."""
    try:
        return open_samples(spec, batch).fingerprint
    except DataError:
        return None


def _open_records(spec: RunSpec) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
    """The starts and the tokens of records, as in `StoredSamples`; DataError if the data set has no records."""
    path = None if spec.data.path is None else samsum_file(local_path(spec.data.path))
    if spec.contract.dataset != SAMSUM or spec.data.format != "auto" or path is None:
        raise DataError(
            "contract.packing",
            f"padded sequences need a data set of records: {SAMSUM!r} with --set data.path=train.json (or .jsonl,"
            " .csv); the nearest is packed",
        )
    encoder = open_encoder(spec.data.tokenizer)
    lengths = npy_tokens(record_lengths(path, encoder)).astype(np.int64)
    if lengths.min() < 2:
        raise DataError("data.tokenizer", "it turns a record into fewer than two tokens, so that nothing is predicted")
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]), npy_tokens(record_tokens(path, encoder))


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
    records = samsum_file(path) if dataset == SAMSUM and data.format == "auto" else None
    if records is not None:
        return "data.path", npy_tokens(record_tokens(records, open_encoder(data.tokenizer)))
    kind = guess_format(path) if data.format == "auto" else data.format
    if dataset == SAMSUM and data.format == "auto" and kind == "text":
        raise DataError("data.path", f"{path}: samsum is read from .json, .jsonl or .csv, or as tokens (.npy, .bin)")
    try:
        if kind == "npy":
            return "data.path", npy_tokens(path)
        if kind == "megatron":
            return "data.path", megatron_tokens(path)
        tokenised = huggingface_tokens if kind == "huggingface" else text_file
        return "data.path", npy_tokens(tokenised(path, open_encoder(data.tokenizer)))
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
    return "npy" if path.suffix == ".npy" else "text"


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


_BITS = np.arange(256)[:, None] >> np.arange(7) & 1
STEPS = np.where(_BITS.any(axis=1), _BITS.argmax(axis=1) + 1, LARGEST_STEP).astype(np.int64)
"""Steps for each byte: 1 + the trailing zeros of its low seven bits, or 8 if all seven are zero."""


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
        self._permutation = permutation(seed, f"{STREAM}/permutation", vocab_size)

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


Samples: TypeAlias = StoredSamples | SyntheticTokens
"""The samples of a run in their order."""
