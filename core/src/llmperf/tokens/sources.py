"""Opens `contract.dataset` and `[data]` as samples with random access."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from llmperf.errors import DataError, PluginError
from llmperf.plugins.loading import plugins_for
from llmperf.plugins.mending import install_own
from llmperf.plugins.own_packages import project_packages
from llmperf.tokens import PYTHON_STDLIB, SYNTHETIC, synthetic_fingerprint
from llmperf.tokens.draws import SampleOrder, permutation, raw_uint64
from llmperf.types import Batch, DataSource, RunSpec
from llmperf.types.plan_checks import Problem
from llmperf.types.spec import ReadTokens

IGNORED = -100
"""Marks a padded place; the cross entropy of torch and of Paddle ignores labels with this value."""
SCANNED_TOKENS = 2**26
"""Streams of up to this length are checked for invalid ids when they are opened; longer streams batch by batch."""
FINGERPRINT_BLOCKS = 64
FINGERPRINT_TOKENS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSamples:
    """Samples of stored tokens: records cut or padded to seq_len, or a stream, where neighbours share a token."""

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
        """The sample at a place of the global order, int64 [seq_len + 1]; DataError after the last one."""
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
    """The samples of a run; DataError if they have invalid ids, or are too few for the steps of `batch`."""
    contract, data = spec.contract, spec.data
    if contract.dataset in (SYNTHETIC, PYTHON_STDLIB) and data.path is not None:
        raise DataError(
            "data.path", f"data set {contract.dataset!r} reads no file; to read one, --set contract.dataset=NAME"
        )
    if contract.packing != "padded" and contract.dataset == SYNTHETIC:
        return SyntheticTokens(spec.model.vocab_size, contract.seq_len, contract.seed)
    read = read_tokens(contract.dataset, data, contract.packing == "padded")
    where, tokens, starts = read.setting, read.ids, None
    if contract.packing == "padded":
        assert read.record_lengths is not None
        starts = np.append(np.int64(0), np.cumsum(read.record_lengths, dtype=np.int64))
        samples = len(starts) - 1
    else:
        samples = max(0, (len(tokens) - 1) // contract.seq_len)
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
    """The problems with which `open_batches` would fail here; without `batch`, the number of samples is not checked."""
    try:
        open_samples(spec, batch)
    except DataError as error:
        return (Problem(code="data_unusable", where=error.where, message=error.message),)
    return ()


def read_tokens(dataset: str, data: DataSource, records: bool = False) -> ReadTokens:
    """The tokens of a data set, with the lengths of its records if asked for; DataError if nothing reads them."""
    if data.path is not None:
        data = replace(data, path=str(local_path(data.path)))
    hook, plugins = "llmperf_read_tokens", plugins_for()
    if dataset != SYNTHETIC:
        for key, read in plugins.collect(hook, dataset=dataset, data=data, records=records):
            if read is None:
                continue
            if not isinstance(read, ReadTokens) or (records and read.record_lengths is None):
                expected = "ReadTokens with lengths of records" if records else "ReadTokens"
                raise PluginError(f"{plugins.who(key)}: {hook}: expected {expected}, found {read!r:.80}")
            if records and read.record_lengths is not None and read.record_lengths.min(initial=2) < 2:
                raise DataError(
                    "data.tokenizer", "it turns a record into fewer than two tokens, so that nothing is predicted"
                )
            return read
    if records and (data.path is None or plugins.answers(hook)):
        raise DataError(
            "contract.packing",
            "padded sequences need a data set of records: 'samsum' with --set data.path=train.json (or .jsonl,"
            " .csv); the nearest is packed",
        )
    if data.path is None and dataset != PYTHON_STDLIB:
        raise DataError(
            "data.path",
            f"data set {dataset!r} is read from a local file: --set data.path=FILE;"
            " to try without: --set dataset=synthetic (or python-stdlib), a variant",
        )
    package = project_packages()["data"]
    broken = next((line for line in plugins.left_out if f"({package})" in line), None)
    mend = broken or f"install it with: {install_own(package)}"
    where = "contract.dataset" if data.path is None else "data.path"
    raise DataError(where, f"{data.path or dataset} is read by {package}; {mend}")


def local_path(text: str) -> Path:
    """The path that `data.path` names; DataError for a pipe, a socket or a device, since reading it might never end."""
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:  # ~NAME of an unknown user
        raise DataError("data.path", f"{text}: {error}") from None
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError("data.path", f"{path} is neither a regular file nor a folder")
    return path


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
