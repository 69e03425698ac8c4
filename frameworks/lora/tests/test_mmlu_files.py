"""MMLU's files as users have them, whole and damaged, and questions as prompts."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf_lora.mmlu.prompts import asked, introduction, mmlu_problems, prompts_of, read_prompts
from llmperf_lora.mmlu.questions import Question, Subject, read_questions, read_subjects
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
    monkeypatch.setattr("llmperf_lora.mmlu.questions.MAX_FILE_BYTES", 10)
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
