"""The run's tokens in the files that Megatron reads, in the order of the run.

Each sample is a document of seq_len + 1 tokens. The script's index arrays (documents, where each sample begins, the
order of samples) come ready-made, so that it neither shuffles nor compiles anything, and every micro batch holds the
same rows as under any other framework.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import llmperf
import numpy as np
from llmperf.types import Plan
from numpy.typing import NDArray

FORMAT = "2"
SMALL_VOCABULARY = 65_500
"""Below it Megatron keeps ids in 16 bits."""


def prepare(plan: Plan) -> Path:
    """The folder with the token files of a plan, made by the first process of this host that asks, in the cache."""
    with llmperf.open_batches(plan, 0) as batches:
        contract, dtype = plan.spec.contract, _dtype(plan)
        facts = (FORMAT, batches.fingerprint, contract.seed, contract.seq_len, contract.steps, contract.global_batch)
        key = hashlib.sha256("\0".join(map(str, (*facts, dtype.str))).encode()).hexdigest()
    folder = llmperf.cache_dir("megatron_data") / key
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            # whole or not at all: what is left of a killed process is never taken for the files
            made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".making-"))
            try:
                samples = plan.spec.contract.steps * plan.batch.global_batch
                with (made / "tokens.bin").open("wb") as file:
                    for micro_batch in _rows(plan):
                        file.write(micro_batch.astype(dtype).tobytes())
                _write_index(made / "tokens.idx", dtype, samples, plan.batch.seq_len + 1)
                _write_order(made, samples, plan.batch.seq_len)
                os.rename(made, folder)
            except BaseException:
                shutil.rmtree(made, ignore_errors=True)
                raise
    return folder


def _dtype(plan: Plan) -> np.dtype[np.integer]:
    return np.dtype("<u2" if plan.spec.model.vocab_size < SMALL_VOCABULARY else "<i4")


def _rows(plan: Plan) -> Iterator[NDArray[np.int64]]:
    """Micro batches as the script's sampler deals them out: of one micro step, all data-parallel ranks in turn."""
    with ExitStack() as stack:
        ranks = [stack.enter_context(llmperf.open_batches(plan, rank)) for rank in range(plan.batch.data_parallel)]
        for _ in range(plan.spec.contract.steps * plan.batch.gradient_accumulation):
            yield from (rank.next_micro_batch() for rank in ranks)


def _write_index(path: Path, dtype: np.dtype[np.integer], samples: int, length: int) -> None:
    """Megatron's `MMIDIDX`, version 1: counts, then lengths, byte offsets and the first sequence of each document."""
    code = {"<i4": 4, "<u2": 8}[dtype.str]
    with path.open("wb") as file:
        file.write(struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, code, samples, samples + 1))
        file.write(np.full(samples, length, "<i4").tobytes())
        file.write((np.arange(samples, dtype="<i8") * length * dtype.itemsize).tobytes())
        file.write(np.arange(samples + 1, dtype="<i8").tobytes())


def _write_order(folder: Path, samples: int, seq_len: int) -> None:
    """Entry 2i is where document i begins and 2i + 1 where it ends: sample 2i is all of it, an odd one is never asked.

    The order is as long as the script believes the data to be, since it fetches some samples ahead.
    """
    bounds = np.zeros((2 * samples, 2), np.int32)
    bounds[:, 0] = np.repeat(np.arange(samples), 2)
    bounds[1::2, 1] = seq_len
    order = np.zeros(2 * samples - 1, np.uint32)
    order[:samples] = 2 * np.arange(samples)
    for name, array in (("documents", np.arange(samples, dtype=np.int32)), ("samples", bounds), ("order", order)):
        np.save(folder / f"{name}.npy", array)
    (folder / "train.dsc").write_text("made by llmperf: one document a sample, in the order of the run\n")
