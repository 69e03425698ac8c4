"""SAMSum as users have it: three published forms, packed or padded, whole and damaged."""

import csv
import json
from dataclasses import replace
from types import SimpleNamespace

import llmperf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf import library
from llmperf.errors import DataError, UserError
from llmperf.tokens.sources import IGNORED, check_data
from llmperf.types import Batch, DataSource, RunSpec
from llmperf_datasets.reading import read_dialogues

SEQ_LEN = 80
RECORDS = [
    {"id": "1", "dialogue": "A: hi\r\nB: {hello}", "summary": "They greet."},
    {"id": "2", "dialogue": 'A: "so, long"\nB: ' + "x" * 60, "summary": "é"},
    {"id": "3", "dialogue": "", "summary": "Nothing was said."},
    {"id": "4", "dialogue": "A: yes", "summary": "A agrees."},
]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path / "cache"))


def texts(records=RECORDS):
    made = "Summarize this dialog:\n{dialogue}\n---\nSummary:\n{summary}"
    return [made.replace("{dialogue}", one["dialogue"]).replace("{summary}", one["summary"]) for one in records]


def write(path, records=RECORDS):
    if path.suffix == ".json":
        path.write_text(json.dumps(records, indent=1))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["id", "dialogue", "summary"])
            writer.writeheader()
            writer.writerows(records)
    return path


def make_plan(path, packing="padded", steps=1, rows=4, micro=4, parallel=1, dataset="samsum", vocab=257, **data):
    case = library().case("default")
    changes = {"dataset": dataset, "seq_len": SEQ_LEN, "global_batch": rows, "packing": packing, "steps": steps}
    contract = replace(case.contract, **changes, warmup_steps=0)
    model = replace(library().model("llama_tiny"), vocab_size=vocab)
    source = DataSource(path=None if path is None else str(path), **data)
    spec = RunSpec(case="c", title="C", contract=contract, tuning=case.tuning, model=model, data=source)
    sizes = {"micro_batch": micro, "gradient_accumulation": rows // micro // parallel, "data_parallel": parallel}
    batch = Batch(**sizes, global_batch=rows, seq_len=SEQ_LEN, tokens_per_step=rows * SEQ_LEN)
    return SimpleNamespace(spec=spec, batch=batch)


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv"])
def test_every_published_form_gives_the_same_records(tmp_path, suffix):
    assert read_dialogues(write(tmp_path / f"train{suffix}")) == texts()


def test_packed_is_all_records_each_with_its_end(tmp_path):
    plan = make_plan(write(tmp_path / "train.json"), packing="packed", rows=3, micro=3)
    rows = llmperf.open_batches(plan, 0).next_micro_batch()
    stream = np.concatenate([[*text.encode(), 256] for text in texts()])
    cut = {tuple(stream[at : at + SEQ_LEN + 1]) for at in range(0, len(stream) - SEQ_LEN, SEQ_LEN)}
    assert {tuple(row) for row in rows} == cut


def test_a_folder_means_its_training_file(tmp_path):
    write(tmp_path / "train.json")
    write(tmp_path / "test.json", RECORDS[:1])
    assert llmperf.open_batches(make_plan(tmp_path), 0).next_micro_batch().shape == (4, SEQ_LEN + 1)


def test_padded_is_a_record_a_row_cut_or_filled_up(tmp_path):
    batches = llmperf.open_batches(make_plan(write(tmp_path / "train.json")), 0)
    rows = batches.next_micro_batch()
    expected = {tuple([*text.encode(), 256][: SEQ_LEN + 1]) for text in texts()}
    assert {tuple(row[row != IGNORED].tolist()) for row in rows} == expected
    for row in rows:
        ended = row == IGNORED
        assert (ended == np.maximum.accumulate(ended)).all()  # nothing after the end
    assert batches.learnt == sum(len(one) - 1 for one in expected) == int((rows[:, 1:] != IGNORED).sum())


def test_weights_make_the_mean_of_micro_batches_the_mean_of_tokens(tmp_path):
    path = write(tmp_path / "train.json")
    whole = llmperf.open_batches(make_plan(path), 0)
    whole.next_micro_batch()
    assert whole.weight == 1.0
    ranks = [llmperf.open_batches(make_plan(path, micro=1, parallel=2), rank) for rank in range(2)]
    parts = []
    for rank in [*ranks, *ranks]:
        rank.next_micro_batch()
        parts.append((rank.learnt, rank.weight))
    assert sum(learnt for learnt, _ in parts) == whole.learnt
    assert [weight for _, weight in parts] == pytest.approx([4 * learnt / whole.learnt for learnt, _ in parts])


def test_packed_micro_batches_all_weigh_the_same():
    batches = llmperf.open_batches(make_plan(None, "packed", dataset="synthetic", rows=6, micro=3), 0)
    for _ in range(2):
        batches.next_micro_batch()
        assert (batches.learnt, batches.weight) == (3 * SEQ_LEN, 1.0)


def test_records_that_do_not_last(tmp_path):
    path = write(tmp_path / "train.json")
    plan = make_plan(path, steps=2)
    (problem,) = check_data(plan.spec, plan.batch)
    assert problem.message == "too short: 4 records; 2 steps need 8; --set data.repeat=true"
    batches = llmperf.open_batches(make_plan(path, steps=2, repeat=True), 0)
    first, second = batches.next_micro_batch(), batches.next_micro_batch()
    assert {row.tobytes() for row in first} == {row.tobytes() for row in second}


def test_padding_needs_records(tmp_path):
    np.save(tmp_path / "tokens.npy", np.arange(200))
    for path, dataset in ((None, "synthetic"), (tmp_path / "tokens.npy", "samsum"), (None, "samsum")):
        plan = make_plan(path, dataset=dataset)
        (problem,) = check_data(plan.spec, plan.batch)
        assert problem.where == "contract.packing"
        assert problem.message.endswith("the nearest is packed")


def test_samsum_may_be_tokens_already_but_no_plain_text_and_without_a_path_it_says_how_to_try(tmp_path):
    np.save(tmp_path / "tokens.npy", np.arange(200))
    plan = make_plan(tmp_path / "tokens.npy", packing="packed", rows=2, micro=2)
    assert check_data(plan.spec, plan.batch) == ()
    (tmp_path / "train.txt").write_text("A: hi" * 100)
    plan = make_plan(tmp_path / "train.txt", packing="packed")
    (problem,) = check_data(plan.spec, plan.batch)
    assert "samsum is read from .json, .jsonl or .csv" in problem.message
    plan = make_plan(None, packing="packed")
    (problem,) = check_data(plan.spec, plan.batch)
    assert "--set data.path=FILE; to try without: --set dataset=synthetic" in problem.message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b"[{]", r"a.json: expected a list of records: .*malformed"),
        ("a.json", b'{"dialogue": "a"}', "expected a list of records: Expected `array`"),
        ("a.json", b'[{"dialogue": "a", "summary": "b"}, {"dialogue": "a"}]', "record 2: .*field `summary`"),
        ("a.json", b'[{"dialogue": "a", "summary": 3}]', r"record 1: .*Expected `str`, got `int` - at `\$.summary`"),
        ("a.json", b"[]", "holds no records"),
        ("a.json", b"[" * 100_000, "expected a list of records"),
        ("a.jsonl", b'{"dialogue": "a", "summary": "b"}\n\n{"dia', "line 3: "),
        ("a.jsonl", b'{"dialogue": "a", "summary": "b"}\n\xff', "line 2: not UTF-8 text"),
        ("a.csv", b"id,dialog,summary\n1,a,b\n", "line 1: expected columns dialogue, found: id, dialog, summary"),
        ("a.csv", b"dialogue,summary\na,b\nc\n", "line 3: expected 2 columns"),
        ("a.csv", b"dialogue,summary\na,b,c\n", "line 2: expected 2 columns"),
        ("a.csv", b'dialogue,summary\na,"b\n', "line 2: unexpected end of data"),
        ("a.csv", b"dialogue,summary\n" + b"x" * 200_000 + b",y\n", "line 2: field larger than field limit"),
        ("a.csv", b"", "line 1: expected columns dialogue and summary, found: none"),
    ],
)
def test_damage_is_reported_with_its_place(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_dialogues(tmp_path / name)


def test_larger_files_are_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr("llmperf_datasets.reading.MAX_BYTES", 10)
    with pytest.raises(UserError, match="larger than"):
        read_dialogues(write(tmp_path / "train.json"))


@given(st.binary(max_size=60), st.sampled_from([".json", ".jsonl", ".csv"]))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_records_or_refused(tmp_path_factory, content, suffix):
    path = tmp_path_factory.getbasetemp() / f"fuzz{suffix}"
    path.write_bytes(content)
    told = ""
    try:
        assert read_dialogues(path)
    except DataError as error:
        told = error.message
    assert told == "" or str(path) in told


def test_a_tokenizer_that_gives_nothing_is_refused(tmp_path, monkeypatch):
    encoder = SimpleNamespace(identity="empty", dtype="<u2", end=(), encode=lambda text: np.zeros(0, dtype=np.int64))
    monkeypatch.setattr("llmperf_datasets.reading.open_encoder", lambda _: encoder)
    plan = make_plan(write(tmp_path / "train.json"))
    (problem,) = check_data(plan.spec, plan.batch)
    assert problem.message == "it turns a record into fewer than two tokens, so that nothing is predicted"
