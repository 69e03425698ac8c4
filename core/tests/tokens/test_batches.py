"""Batches as a worker gets them, and the same checks before the launch."""

from dataclasses import replace
from types import SimpleNamespace

import llmperf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf import library
from llmperf.errors import UserError
from llmperf.plugins.loading import Plugins
from llmperf.tokens import PYTHON_STDLIB
from llmperf.tokens.draws import SampleOrder, decays, initial_constant, initial_normal, raw_uint64
from llmperf.tokens.sources import SyntheticTokens, check_data
from llmperf.types import Batch, DataSource, Layout, RunSpec

SEQ_LEN = 16


def make_spec(dataset="mine", vocab_size=300, steps=2, rows=4, **data):
    case = library().case("default")
    contract = replace(case.contract, dataset=dataset, seq_len=SEQ_LEN, global_batch=rows, steps=steps, warmup_steps=0)
    model = replace(library().model("llama_tiny"), vocab_size=vocab_size)
    return RunSpec(case="c", title="C", contract=contract, tuning=case.tuning, model=model, data=DataSource(**data))


def make_plan(spec, micro=4, accumulation=1, parallel=1):
    sizes = {"micro_batch": micro, "gradient_accumulation": accumulation, "data_parallel": parallel}
    rows = spec.contract.global_batch
    batch = Batch(**sizes, global_batch=rows, seq_len=SEQ_LEN, tokens_per_step=rows * SEQ_LEN)
    layout = Layout(nodes=1, devices_per_node=parallel, tensor_parallel=1, pipeline_parallel=1, data_parallel=parallel)
    return SimpleNamespace(spec=spec, batch=batch, layout=layout)


def rows_of_run(spec, **layout):
    """Every row of the run as (step, row), whichever rank and micro step it came from."""
    plan = make_plan(spec, **layout)
    ranks = [llmperf.open_batches(plan, rank) for rank in range(plan.batch.data_parallel)]
    steps = []
    for _ in range(spec.contract.steps):
        micro = [rank.next_micro_batch() for _ in range(plan.batch.gradient_accumulation) for rank in ranks]
        steps.append(np.concatenate(micro))
    return np.stack(steps)


@pytest.fixture
def tokens_file(tmp_path):
    np.save(tmp_path / "t.npy", np.arange(SEQ_LEN * 8 + 1))
    return str(tmp_path / "t.npy")


@pytest.mark.parametrize("dataset", ["synthetic", "mine"])
def test_all_layouts_see_the_same_rows(tokens_file, dataset):
    spec = make_spec(dataset, path=None if dataset == "synthetic" else tokens_file)
    whole = rows_of_run(spec)
    assert whole.shape == (2, 4, SEQ_LEN + 1)
    for layout in ({"micro": 1, "accumulation": 4}, {"micro": 1, "accumulation": 2, "parallel": 2}):
        assert (rows_of_run(spec, **layout) == whole).all()
    assert (rows_of_run(spec, micro=2, parallel=2) == whole).all()


def test_rows_are_runs_of_the_stream_and_each_is_seen_once(tokens_file):
    rows = rows_of_run(make_spec(path=tokens_file)).reshape(8, SEQ_LEN + 1)
    assert sorted(rows[:, 0].tolist()) == [SEQ_LEN * sample for sample in range(8)]
    assert (np.diff(rows, axis=1) == 1).all()
    assert rows[:, 0].tolist() != sorted(rows[:, 0].tolist())


def test_too_few_tokens_say_what_would_do(tokens_file):
    spec = make_spec(steps=3, path=tokens_file)
    message = (
        r"data.path: too short: 129 tokens, 8 samples of 16; 12 samples need 193 tokens \(3 steps x global batch 4\);"
        r" --set data.repeat=true, or --set contract.steps=2"
    )
    with pytest.raises(UserError, match=message):
        llmperf.open_batches(make_plan(spec), 0)
    (problem,) = check_data(spec, make_plan(spec).batch)
    assert problem.where == "data.path"
    assert "12 samples need 193 tokens" in problem.message
    assert check_data(spec, None) == ()


def test_repeat_begins_again_in_another_order(tokens_file):
    spec = make_spec(steps=4, path=tokens_file, repeat=True)
    assert check_data(spec, make_plan(spec).batch) == ()
    first, second = rows_of_run(spec).reshape(2, 8, SEQ_LEN + 1)
    assert sorted(first[:, 0].tolist()) == sorted(second[:, 0].tolist())
    assert first[:, 0].tolist() != second[:, 0].tolist()


def test_not_one_sample_is_too_short_even_with_repeat(tmp_path):
    np.save(tmp_path / "one.npy", np.ones(1, dtype=int))
    spec = make_spec(path=str(tmp_path / "one.npy"), repeat=True)
    (problem,) = check_data(spec, make_plan(spec).batch)
    assert problem.message == "too short: 1 tokens, 0 samples of 16; 1 samples need 17 tokens"


@pytest.mark.parametrize("foreign", [300, -1])
def test_a_token_beyond_the_vocabulary(tmp_path, foreign):
    np.save(tmp_path / "t.npy", np.array([5] * 200 + [foreign]))
    spec = make_spec(path=str(tmp_path / "t.npy"))
    message = f"data.path: token id {foreign} is outside the model's vocabulary, 0 to 299"
    with pytest.raises(UserError, match=message):
        llmperf.open_batches(make_plan(spec), 0)


def test_in_a_long_stream_it_is_found_in_its_batch(tmp_path, monkeypatch):
    monkeypatch.setattr("llmperf.tokens.sources.SCANNED_TOKENS", 16)
    np.save(tmp_path / "t.npy", np.full(SEQ_LEN * 8 + 1, 300))
    batches = llmperf.open_batches(make_plan(make_spec(path=str(tmp_path / "t.npy"))), 0)
    with pytest.raises(UserError, match="token id 300"):
        batches.next_micro_batch()


def test_the_package_that_reads_other_data_is_named_when_it_is_absent(tmp_path, tokens_file, monkeypatch):
    monkeypatch.setattr("llmperf.tokens.sources.plugins_for", Plugins)
    (tmp_path / "t.txt").write_text("x" * 500)
    for dataset, path, where in (
        ("mine", str(tmp_path / "t.txt"), "data.path"),
        ("mine", tokens_file, "data.path"),
        (PYTHON_STDLIB, None, "contract.dataset"),
    ):
        (problem,) = check_data(make_spec(dataset, path=path), None)
        assert problem.where == where
        assert problem.message.startswith(f"{path or dataset} is read by llmperf-datasets; install it with: ")


def test_synthetic_reads_no_file_and_needs_eight_words(tokens_file):
    (problem,) = check_data(make_spec("synthetic", path=tokens_file), None)
    assert (problem.where, "'synthetic' reads no file" in problem.message) == ("data.path", True)
    (problem,) = check_data(make_spec("synthetic", vocab_size=7), None)
    assert problem.message == "'synthetic' needs a vocabulary of 8 or more; model.vocab_size is 7"


def test_reading_past_the_plan_says_so(tokens_file):
    batches = llmperf.open_batches(make_plan(make_spec(path=tokens_file)), 0)
    for _ in range(2):
        batches.next_micro_batch()
    with pytest.raises(UserError, match="its 8 samples have been used up"):
        batches.next_micro_batch()
    batches.close()
    batches.close()


def test_entropy_and_fingerprint(tokens_file, tmp_path):
    with llmperf.open_batches(make_plan(make_spec("synthetic")), 0) as synthetic:
        assert synthetic.known_entropy == pytest.approx(1.3755, abs=1e-4)
    mine = llmperf.open_batches(make_plan(make_spec(path=tokens_file)), 0)
    assert mine.known_entropy is None
    changed = np.load(tokens_file)
    changed[77] += 1
    np.save(tmp_path / "other.npy", changed)
    other = llmperf.open_batches(make_plan(make_spec(path=str(tmp_path / "other.npy"))), 0)
    assert len({synthetic.fingerprint, mine.fingerprint, other.fingerprint}) == 3


def batch(micro, accumulation, parallel, seq_len=8):
    rows = micro * accumulation * parallel
    return Batch(
        micro_batch=micro,
        gradient_accumulation=accumulation,
        data_parallel=parallel,
        global_batch=rows,
        seq_len=seq_len,
        tokens_per_step=rows * seq_len,
    )


def test_epochs_and_seeds_differ_and_repeat_exactly():
    def epochs(seed):
        order = SampleOrder(100, seed)
        return [order[place] for place in range(200)]

    assert epochs(1) == epochs(1)
    assert epochs(1)[:100] != epochs(1)[100:]
    assert epochs(1) != epochs(2)


def test_synthetic_text_is_the_recorded_one():
    expected = [12, 25, 80, 63, 57, 5, 58, 53, 75, 1, 56, 85, 92]
    assert SyntheticTokens(100, 12, 0).at(3).tolist() == expected


def test_synthetic_text_has_the_entropy_it_says():
    from llmperf.tokens import known_entropy

    vocab, source = 50, SyntheticTokens(50, 4000, 3)
    pairs = np.zeros((vocab, vocab))
    for index in range(100):
        tokens = source.at(index)
        np.add.at(pairs, (tokens[:-1], tokens[1:]), 1)
    conditional = pairs / pairs.sum(axis=1, keepdims=True)
    logs = np.log(conditional, out=np.zeros_like(conditional), where=conditional > 0)
    measured = -(pairs / pairs.sum() * logs).sum()
    assert abs(measured - known_entropy("synthetic")) < 0.005
    assert known_entropy("synthetic") == 1.984375 * np.log(2)
    assert known_entropy("samsum") is None


@given(index=st.integers(0, 2**40), vocab=st.integers(8, 70000), seq_len=st.integers(1, 70))
@settings(max_examples=40)
def test_any_synthetic_sequence_can_be_had_alone(index, vocab, seq_len):
    tokens = SyntheticTokens(vocab, seq_len, 5).at(index)
    assert tokens.dtype == np.int64
    assert tokens.shape == (seq_len + 1,)
    assert 0 <= tokens.min() <= tokens.max() < vocab
    assert (SyntheticTokens(vocab, seq_len, 5).at(index) == tokens).all()


NAMES = st.sampled_from(["lm_head.weight", "model.layers.3.mlp.up_proj.weight", "ü"])


def test_words_are_the_recorded_ones():
    first = [7793763174529942601, 8199357803247599294, 15694760944295190838]
    assert raw_uint64(0, "golden", 0, 3).tolist() == first
    assert raw_uint64(7, "golden", 1001, 1003).tolist() == [13968942736153276324, 511633241654163376]


def test_weights_are_the_recorded_ones():
    weights = initial_normal(0, "model.embed_tokens.weight", (2, 2), 0.02)
    assert weights.dtype == np.float32
    with pytest.raises(ValueError, match="has 4 elements"):
        initial_normal(0, "model.embed_tokens.weight", (2, 2), 0.02, 0, 5)
    assert [[value.hex() for value in row] for row in weights.tolist()] == [
        ["-0x1.c02f7a0000000p-6", "-0x1.343c5a0000000p-6"],
        ["-0x1.c75f9c0000000p-7", "-0x1.0d938e0000000p-9"],
    ]


@given(seed=st.integers(0, 2**70), name=NAMES, cut=st.tuples(st.integers(0, 3000), st.integers(0, 3000)))
@settings(max_examples=60, deadline=None)
def test_a_slice_is_that_part_of_the_whole(seed, name, cut):
    start, stop = sorted(cut)
    assert (raw_uint64(seed, name, 0, 3000)[start:stop] == raw_uint64(seed, name, start, stop)).all()
    whole = initial_normal(seed, name, (30, 100), 0.02)
    assert whole.shape == (30, 100)
    assert (whole.ravel()[start:stop] == initial_normal(seed, name, (30, 100), 0.02, start, stop)).all()


def test_threads_change_nothing(monkeypatch):
    shape, cut = (1 << 20,), (5, (1 << 20) - 7)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    many = initial_normal(3, "w", shape, 1.0, *cut)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert (initial_normal(3, "w", shape, 1.0)[cut[0] : cut[1]] == many).all()


def test_moments_are_those_of_a_normal_without_tails():
    drawn = initial_normal(11, "w", (1000, 1000), 0.02).astype(np.float64)
    assert abs(drawn.mean()) < 5 * 0.02 / 1000
    assert drawn.std() == pytest.approx(0.02, rel=0.003)
    assert np.abs(drawn).max() < 3.4642 * 0.02
    assert (drawn**4).mean() / drawn.var() ** 2 == pytest.approx(2.7, abs=0.02)


def test_names_seeds_and_neighbours_are_unrelated():
    streams = [initial_normal(s, n, (100_000,), 1.0) for s in (0, 1) for n in ("a", "b")]
    streams.append(initial_normal(0, "a", (100_001,), 1.0)[1:])
    related = np.corrcoef(np.stack(streams)) - np.eye(len(streams))
    assert np.abs(related).max() < 0.02


@pytest.mark.parametrize(
    ("name", "constant"),
    [
        ("model.norm.weight", 1.0),
        ("model.layers.0.self_attn.q_norm.weight", 1.0),
        ("model.layers.0.self_attn.q_proj.bias", 0.0),
        ("model.layers.0.mlp.experts.gate_proj_bias", 0.0),
        ("model.layers.0.self_attn.sinks", 0.0),
        ("model.layers.0.mlp.router.weight", None),
        ("model.layers.0.mlp.experts.gate_proj", None),
        ("lm_head.weight", None),
    ],
)
def test_norms_biases_and_sinks_begin_at_a_constant_and_do_not_decay(name, constant):
    model = library().model("gpt_oss_tiny")
    assert initial_constant(name, model) == constant
    assert decays(name) == (constant is None)
    assert initial_constant("model.norm.weight", library().model("gemma3_tiny")) == 0.0  # 1 is added to it
