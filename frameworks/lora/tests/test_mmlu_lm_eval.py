"""The same model, files and tokenizer give the same answers here and in lm-evaluation-harness, question by question."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from llmperf_lora.mmlu.prompts import asked, introduction
from llmperf_lora.mmlu.questions import read_subjects

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
