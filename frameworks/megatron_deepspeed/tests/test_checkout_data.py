"""The token files that the script gets, read back as Megatron's data set does it."""

from dataclasses import replace

import llmperf
import numpy as np
import pytest
from llmperf_datasets.reading import megatron_tokens
from llmperf_megatron_deepspeed.checkout.data import prepare

SEQ_LEN = 32


@pytest.fixture
def make_plan(program, tmp_path, monkeypatch):
    """A function that makes a plan of 3 steps of 4 samples: `make_plan(seed=1)`."""
    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path / "cache"))

    def make(devices=2, micro_batch=1, **contract):
        facts = {"seq_len": SEQ_LEN, "steps": 3, "warmup_steps": 0, **contract}
        task = {"framework": "pytorch", "contract": facts, "tuning": {"micro_batch": micro_batch}}
        return program.make_plan(task, devices)

    return make


def by_index(folder, place):
    """The sample at a place, by Megatron's arrays: its bounds in documents of one sample each."""
    tokens, order = megatron_tokens(folder / "tokens.bin"), np.load(folder / "order.npy")
    bounds, documents = np.load(folder / "samples.npy"), np.load(folder / "documents.npy")
    (first, begin), (last, end) = bounds[order[place]], bounds[order[place] + 1]
    assert first == last
    start = documents[first] * (SEQ_LEN + 1)
    return tokens[start + begin : start + end + 1]


@pytest.mark.parametrize("micro_batch", [1, 2])
def test_every_micro_batch_has_the_rows_that_other_frameworks_see(make_plan, micro_batch):
    plan = make_plan(micro_batch=micro_batch)
    folder = prepare(plan)
    batch = plan.batch
    ranks = [llmperf.open_batches(plan, rank) for rank in range(batch.data_parallel)]
    place = 0
    for _ in range(3 * batch.gradient_accumulation):
        for rank in ranks:  # as the script's sampler deals a micro step out
            for row in rank.next_micro_batch():
                assert (by_index(folder, place) == row).all()
                place += 1
    assert place == 12


def test_the_script_may_fetch_ahead_of_the_last_sample(make_plan):
    folder = prepare(make_plan())
    order, bounds = np.load(folder / "order.npy"), np.load(folder / "samples.npy")
    assert len(order) == len(bounds) - 1
    assert order.max() < len(bounds) - 1
    assert (bounds.dtype, order.dtype) == (np.int32, np.uint32)


def test_files_are_made_once_and_kept_apart(make_plan):
    plan = make_plan()
    folder = prepare(plan)
    made = (folder / "tokens.bin").stat().st_mtime_ns
    assert prepare(plan) == folder
    assert (folder / "tokens.bin").stat().st_mtime_ns == made
    assert prepare(make_plan(seed=1)) != folder
    assert prepare(make_plan(steps=4)) != folder
    assert sorted(path.suffix for path in folder.parent.iterdir() if path.is_file()) == [".lock"] * 3


def test_ids_have_32_bits_where_the_vocabulary_needs_them(make_plan):
    plan = make_plan(devices=1)
    large = replace(plan, spec=replace(plan.spec, model=replace(plan.spec.model, vocab_size=128_256)))
    assert megatron_tokens(prepare(large) / "tokens.bin").dtype == np.int32
    assert megatron_tokens(prepare(plan) / "tokens.bin").dtype == np.uint16
