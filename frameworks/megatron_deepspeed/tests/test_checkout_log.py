"""What is read in a line of `pretrain_gpt.py`."""

import json
import math
from dataclasses import asdict, replace

import llmperf
import numpy as np
import pytest
from llmperf.types import LoggedFacts, LoggedFailure, LoggedStep
from llmperf_datasets.reading import megatron_tokens
from llmperf_megatron_deepspeed.checkout.data import prepare
from llmperf_megatron_deepspeed.checkout.log import pairs, parse_log

LINE = (
    " iteration       10/      10 | consumed samples:           40 | consumed tokens:         5120 |"
    " elapsed time per iteration (ms): 500.0 | learning rate: 3.000E-04 | global batch size:     4 |"
    " lm loss: 5.152386E+00 | loss scale: 1.0 | actual seqlen:   128 | number of skipped iterations:   0 |"
    " number of nan iterations:   0 | samples per second: 10.378 | tokens per gpu per second (tgs): 664.211 |"
    " TFLOPs: 0.00 |"
)
STEP = LoggedStep(step=10, seconds=0.5, loss=5.152386, skipped=False)


def without(key):
    return "|".join(part for part in LINE.split("|") if key not in part)


@pytest.mark.parametrize("key", ["consumed", "learning rate", "loss scale", "TFLOPs", "actual seqlen", "batch size"])
def test_no_other_pair_is_needed_in_any_order(key):
    head, *parts = without(key).rstrip(" |").split("|")
    assert parse_log("|".join([head, *reversed(parts)]) + "|") == STEP


@pytest.mark.parametrize("before", ["node1: ", "[default0]:", "0: ", "\x1b[32m", "W1121 warning without end"])
def test_what_launchers_and_others_put_before_it_is_passed_over(before):
    assert parse_log(before + LINE) == STEP


def test_a_gradient_norm_where_there_is_one():
    assert parse_log(LINE + " grad norm: 1.250 |").grad_norm == 1.25


def test_a_loss_that_is_left_out_is_no_number():
    """The script prints the mean loss only if it is above 0, which NaN is not."""
    assert math.isnan(parse_log(without("lm loss")).loss)
    assert math.isnan(parse_log(LINE.replace("5.152386E+00", "nan")).loss)
    assert parse_log(LINE.replace("5.152386E+00", "INF")).loss == math.inf


SKIPPED = without("lm loss").replace("skipped iterations:   0", "skipped iterations:   1")


def test_a_step_skipped_to_find_a_loss_scale_has_no_loss_and_without_a_scale_it_has_diverged():
    finding = SKIPPED.replace("loss scale: 1.0", "loss scale: 4096.0")
    assert parse_log(finding) == LoggedStep(step=10, seconds=0.5, loss=None, skipped=True)
    assert math.isnan(parse_log(finding.replace("nan iterations:   0", "nan iterations:   1")).loss)
    assert math.isnan(parse_log(SKIPPED).loss)
    assert math.isnan(parse_log(SKIPPED.replace("loss scale: 1.0 |", "")).loss)


def test_memory_versions_and_failures_of_a_rank():
    line = "[Rank 1] (after 1 iterations) memory (MB) | allocated: 457.2 | max allocated: 512.5 | reserved: 600.0"
    assert parse_log(line) == LoggedFacts(peak_memory_bytes=round(512.5 * 2**20))
    assert parse_log('llmperf packages: {"torch": "2.15.0"}') == LoggedFacts(packages={"torch": "2.15.0"})
    assert parse_log("llmperf packages: [") == LoggedFacts()
    told = LoggedFailure(exception="ValueError", message="no", traceback="...")
    assert parse_log(f"llmperf failure: {json.dumps(asdict(told))}") == told


@pytest.mark.parametrize(
    "line",
    [
        "", " validation loss at iteration 10 | lm loss value: 5.1 | lm loss PPL: 160 |", " iteration 3 of 5",
        " iteration        3/       5 | learning rate: 1.0 |",
        " iteration        0/       5 | elapsed time per iteration (ms): 500.0 |",
        " iteration        3/       5 | elapsed time per iteration (ms): -1 |",
        " iteration        3/       5 | elapsed time per iteration (ms): inf |",
        " iteration        3/       5 | elapsed time per iteration (ms): 1.2.3 |",
        f" iteration {'9' * 5000}/5 | elapsed time per iteration (ms): 1 |",
        "[Rank 1] (after 1 iterations) memory (MB) | allocated: 457.2",
        "[Rank 1] (after 1 iterations) memory (MB) | max allocated: nan",
        'llmperf failure: {"exception": "ValueError"}', "llmperf failure: " + "[" * 5000, "|" * 60_000,
        " iteration 1/1 |" + "a:" * 30_000, "\x00\ufffd iteration",
    ],
)  # fmt: skip
def test_other_lines_tell_nothing(line):
    assert parse_log(line) is None


def test_pairs_that_are_none_are_passed_over():
    assert pairs("a: 1 | b | : 2 | c: x | d: 1e3 | E F (g): -2.5 |") == {"a": 1.0, "d": 1000.0, "e f (g)": -2.5}


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
