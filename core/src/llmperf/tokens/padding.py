"""Sequences of one record each: cut at seq_len, or padded with places that are neither predicted nor counted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from llmperf.tokens.arrays import npy_tokens
from llmperf.tokens.cache import cached_tokens, file_digest
from llmperf.tokens.data_sets import DataError, local_path
from llmperf.tokens.draws import SampleOrder
from llmperf.tokens.encoders import Encoder, open_encoder
from llmperf.tokens.samsum import SAMSUM, read_dialogues, samsum_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmperf.types import Batch, RunSpec

IGNORED = -100
"""Marks a padded place; the cross entropy of torch and of Paddle ignores labels with this value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedSamples:
    """Samples of one record each."""

    where: str
    tokens: NDArray[np.integer]
    starts: NDArray[np.int64]
    """Index of the first token of each record, and the number of all tokens."""
    seq_len: int
    order: SampleOrder
    repeat: bool

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all records."""
        digest = hashlib.sha256(f"records/v1/{len(self.starts)}".encode())
        digest.update(self.starts.astype("<i8").tobytes())
        digest.update(self.tokens.astype("<i8").tobytes())
        return digest.hexdigest()

    def at(self, place: int) -> NDArray[np.int64]:
        """The sample at a place of the global order, int64 [seq_len + 1]; `IGNORED` after the end of the record."""
        start, stop = self._bounds(place)
        row = np.full(self.seq_len + 1, IGNORED, dtype=np.int64)
        row[: stop - start] = self.tokens[start:stop]
        return row

    def learnt(self, place: int) -> int:
        """Predicted tokens of that sample: all but its first."""
        start, stop = self._bounds(place)
        return stop - start - 1

    def _bounds(self, place: int) -> tuple[int, int]:
        if place >= self.order.samples and not self.repeat:
            raise DataError(self.where, f"its {self.order.samples} records have been used up; --set data.repeat=true")
        record = self.order[place]
        start, stop = int(self.starts[record]), int(self.starts[record + 1])
        return start, min(stop, start + self.seq_len + 1)


def open_padded(spec: RunSpec, batch: Batch | None) -> PaddedSamples:
    """The records of a run; DataError if the data set has no records, or too few for its steps."""
    path = None if spec.data.path is None else samsum_file(local_path(spec.data.path))
    if spec.contract.dataset != SAMSUM or spec.data.format != "auto" or path is None:
        raise DataError(
            "contract.packing",
            f"padded sequences need a data set of records: {SAMSUM!r} with --set data.path=train.json (or .jsonl,"
            " .csv); the nearest is packed",
        )
    encoder = open_encoder(spec.data.tokenizer)

    def parts() -> Iterator[NDArray[np.integer]]:
        for record in read_dialogues(path):
            yield np.array([len(encoder.encode(record.text)) + len(encoder.end)], dtype=np.int64)

    lengths = npy_tokens(cached_tokens([*_key(path), encoder.identity, "lengths"], "<u4", parts)).astype(np.int64)
    if lengths.min() < 2:
        raise DataError("data.tokenizer", "it turns a record into fewer than two tokens, so that nothing is predicted")
    records = len(lengths)
    wanted = 1 if batch is None or spec.data.repeat else spec.contract.steps * batch.global_batch
    if records < wanted:
        raise DataError(
            "data.path",
            f"too short: {records} records; {spec.contract.steps} steps need {wanted}; --set data.repeat=true",
        )
    return PaddedSamples(
        where="data.path",
        tokens=npy_tokens(record_tokens(path, encoder)),
        starts=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]),
        seq_len=spec.contract.seq_len,
        order=SampleOrder(len(lengths), spec.contract.seed),
        repeat=spec.data.repeat,
    )


def record_tokens(path: Path, encoder: Encoder) -> Path:
    """The tokens of SAMSum's records, joined, each followed by the tokenizer's end token."""

    def parts() -> Iterator[NDArray[np.integer]]:
        for record in read_dialogues(path):
            yield encoder.encode(record.text)
            yield np.array(encoder.end, dtype=np.int64)

    return cached_tokens([*_key(path), encoder.identity], encoder.dtype, parts)


def _key(path: Path) -> list[str]:
    try:
        return [SAMSUM, path.suffix, file_digest(path)]
    except OSError as error:
        raise DataError("data.path", f"{path}: {error.strerror or error}") from None
