"""MMLU's files as users have them, whole and damaged, and questions as prompts."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf_lora.mmlu.prompts import (
    Question,
    Subject,
    asked,
    introduction,
    mmlu_problems,
    prompts_of,
    read_prompts,
    read_questions,
    read_subjects,
)
from llmperf_lora.options import Options

CHOICES = ("one", "two", "three", "four")


def bytes_encoder(begin=(), **changed):
    encode = lambda text: np.frombuffer(text.encode(), dtype=np.uint8)  # noqa: E731
    return SimpleNamespace(begin=begin, **{"encode": encode, **changed})


def model(vocab_size=300, max_positions=4096):
    return SimpleNamespace(name="tiny", vocab_size=vocab_size, max_positions=max_positions)


def subject(questions=1, shots=1):
    one = Question(text=" What?\n", choices=CHOICES, answer=2)
    return Subject(name="us_history", shots=(one,) * shots, questions=(one,) * questions)


def test_all_subjects_of_a_folder_in_order(mmlu, tmp_path):
    found = read_subjects(mmlu, "test", 5, None)
    assert [one.name for one in found] == ["anatomy", "high_school_us_history", "virology"]
    assert {(len(one.shots), len(one.questions)) for one in found} == {(5, 12)}
    assert [len(one.questions) for one in read_subjects(mmlu, "val", 2, 2)] == [2, 2, 2]
    shutil.copytree(mmlu, tmp_path / "data")  # as the published archive unpacks
    assert read_subjects(tmp_path, "test", 5, None) == found


def test_a_prompt_is_introduction_examples_and_the_question():
    told = introduction(subject()) + asked(subject().questions[0])
    example = "What?\nA. one\nB. two\nC. three\nD. four\nAnswer:"
    start = "The following are multiple choice questions (with answers) about us history.\n\n"
    assert told == f"{start}{example} C\n\n{example}"


def test_prompts_end_before_the_letter():
    (prompt,) = prompts_of(subject(), bytes_encoder(begin=(299,)), model())
    text = introduction(subject()) + asked(subject().questions[0]) + " "
    assert tuple(prompt.ids) == (299, *text.encode())
    assert prompt.letters == tuple(b"ABCD")
    assert (prompt.subject, prompt.answer) == ("us_history", 2)
    (prompt,) = prompts_of(subject(), bytes_encoder(), model(max_positions=10))  # too long: it loses its beginning
    assert bytes(prompt.ids.tolist()) == b"r\nAnswer: "


@pytest.mark.parametrize(
    ("encoder", "vocab_size", "message"),
    [
        (bytes_encoder(encode=lambda text: np.array([1, 2, 3])), 300, "must end in one token each"),
        (bytes_encoder(encode=lambda text: np.array([len(text), ord(text[-1])])), 150, r"token id \d+ is outside"),
        (bytes_encoder(encode=lambda text: np.array([ord(text[-1]), ord(text[-1])])), 300, "one token each"),
        (bytes_encoder(begin=(299,)), 299, "token id 299 is outside the vocabulary of tiny, 0 to 298"),
    ],
)
def test_tokenizers_that_will_not_do(encoder, vocab_size, message):
    with pytest.raises(UserError, match=f"data.tokenizer: MMLU cannot be answered with it: .*{message}"):
        list(prompts_of(subject(), encoder, model(vocab_size)))


def spec_with(tokenizer="bytes", **facts):
    return SimpleNamespace(data=SimpleNamespace(tokenizer=tokenizer), model=model(**facts))


def test_files_and_tokenizer_are_looked_at_before_the_start(mmlu, tmp_path):
    assert list(mmlu_problems(Options(mmlu=str(mmlu)), spec_with())) == []
    (problem,) = mmlu_problems(Options(mmlu=str(tmp_path)), spec_with())
    assert problem.where == "framework.mmlu"
    assert "expected the folders dev, val, test of MMLU's CSV layout" in problem.message
    (problem,) = mmlu_problems(Options(mmlu=str(mmlu), mmlu_shots=6), spec_with())
    assert problem.message.endswith("expected 6 examples, found 5; --set framework.mmlu_shots=5")
    (problem,) = mmlu_problems(Options(mmlu=str(mmlu)), spec_with(vocab_size=100))
    assert problem.where == "data.tokenizer"
    assert problem.message.startswith("MMLU cannot be answered with it: token id")
    (problem,) = mmlu_problems(Options(mmlu=str(mmlu)), spec_with(tokenizer=str(tmp_path / "none.json")))
    assert problem.where == "data.tokenizer"
    shutil.copytree(mmlu / "test", tmp_path / "test")
    options = Options(mmlu=str(tmp_path), mmlu_shots=0, mmlu_limit=1)
    assert len(read_prompts(options, "bytes", model())) == 3  # without shots no examples are needed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected questions, found none"),
        (b"q,a,b,c,d\n", "line 1: expected a question, four choices and a letter, found 5 columns"),
        (b"q,a,b,c,d,A\nq,a,b,c,d,E\n", "line 2: expected A, B, C or D as answer, found 'E'"),
        (b"q,a,b,c,d,A\n\xff", "line 2: not UTF-8 text"),
        (b"x" * 200_000 + b",a,b,c,d,A\n", "field larger than field limit"),
    ],
)
def test_damage_is_told_with_its_place(tmp_path, content, message):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_questions(tmp_path / "a.csv")


def test_quotes_line_ends_and_a_byte_order_mark_and_larger_files_are_refused(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbf"a ""b"",\nc",1,2,3,4,D\r\n\r\n')
    assert read_questions(tmp_path / "a.csv") == (Question(text='a "b",\nc', choices=("1", "2", "3", "4"), answer=3),)
    monkeypatch.setattr("llmperf_lora.mmlu.prompts.MAX_FILE_BYTES", 10)
    with pytest.raises(UserError, match="larger than"):
        read_questions(tmp_path / "a.csv")


@given(st.binary(max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_questions_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_bytes(content)
    told = ""
    try:
        assert read_questions(path)
    except UserError as error:
        told = str(error)
    assert told == "" or str(path) in told


HARNESS = importlib.util.find_spec("lm_eval")
PROGRAM = Path(__file__).with_name("lm_eval_program.py")
needs_harness = pytest.mark.skipif(HARNESS is None, reason="lm-eval is not installed")


@pytest.fixture(scope="module")
def judged(tmp_path_factory, make_mmlu, program):
    folder = make_mmlu(tmp_path_factory.mktemp("judged"), per_subject=20, seed=5, longest=45)
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train([str(path) for path in sorted(folder.rglob("*.csv"))], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.save(str(folder / "tokenizer.json"))
    facts = {**program.MODEL, "vocab_size": 400, "max_positions": 600, "initializer_std": 0.4}
    (folder / "model.json").write_text(json.dumps(facts))
    result = tmp_path_factory.mktemp("result") / "result.json"
    env = {**os.environ, "OMP_NUM_THREADS": "2", "HF_HOME": str(result.parent / "hf")}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), str(result)], env=env, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, json.loads(result.read_text())


@needs_harness
@pytest.mark.slow
@pytest.mark.long
def test_every_prompt_answer_and_accuracy_is_the_harnesss(judged):
    folder, found = judged
    assert found["ours"] == found["theirs"]
    assert len({answer for answers in found["ours"].values() for answer in answers}) == 4
    assert 0 < found["cut"] < 60  # some prompts are longer than the model's positions, not all
    for subject in read_subjects(folder, "test", 5, None):
        own = [introduction(subject) + asked(question) for question in subject.questions]
        assert own == found["prompts"][subject.name]
    assert len(found["accuracy"]) == 3
    for subject, accuracy in found["accuracy"].items():
        assert found["figures"][f"mmlu/{subject}"] == pytest.approx(accuracy, abs=0.001)
    assert found["figures"]["mmlu"] == pytest.approx(sum(found["accuracy"].values()) / 3, abs=0.001)


@needs_harness
def test_all_57_subjects_are_introduced_as_the_harness_does(mmlu):
    import yaml

    tasks = Path(HARNESS.origin).parent / "tasks" / "mmlu" / "default"
    files = sorted(tasks.glob("mmlu_*.yaml"))
    assert len(files) == 57
    (subject, *_) = read_subjects(mmlu, "test", 0, 1)
    for file in files:
        told = yaml.safe_load(file.read_text())
        assert introduction(replace(subject, name=told["dataset_name"])) == told["description"]
