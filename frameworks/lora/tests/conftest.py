"""The plain PyTorch plugin's fixtures, with ranks that also look at adapters; files to train on."""

import csv
import json
import random
from functools import partial
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def train(train):
    """As the plain PyTorch plugin's; the ranks also look at adapters."""
    return partial(train, program=Path(__file__).with_name("lora_program.py"))


SUBJECTS = ("anatomy", "high_school_us_history", "virology")
WORDS = ("cell", "army", "virus", "bone", "king", "law", "host", "war", "nerve", "tax", "vote", "protein", "map")


def write_mmlu(folder, per_subject=12, seed=0, longest=30):
    """A small made-up set in the published layout; some questions have line ends, quotes and commas."""
    draw = random.Random(seed)
    for split, rows in (("dev", 5), ("val", 3), ("test", per_subject)):
        (folder / split).mkdir(parents=True)
        for subject in SUBJECTS:
            with (folder / split / f"{subject}_{split}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                for _ in range(rows):
                    words = draw.choices(WORDS, k=draw.randint(4, longest))
                    text = draw.choice([" ", ", ", "\n", ' "']).join(words) + draw.choice(["?", " ?\n", ": _"])
                    choices = [" ".join(draw.choices(WORDS, k=draw.randint(1, 4))) for _ in range(4)]
                    writer.writerow([text, *choices, draw.choice("ABCD")])
    return folder


@pytest.fixture(scope="session")
def make_mmlu():
    """`make_mmlu(folder, per_subject, seed, longest)`."""
    return write_mmlu


@pytest.fixture(scope="session")
def mmlu(tmp_path_factory):
    """A folder in MMLU's layout: 3 subjects, 12 questions each."""
    return write_mmlu(tmp_path_factory.mktemp("mmlu"))


@pytest.fixture(scope="session")
def samsum(tmp_path_factory):
    """60 records of SAMSum's form, of unequal lengths."""
    draw = random.Random(1)
    path = tmp_path_factory.mktemp("samsum") / "train.json"
    records = [
        {"id": str(number), "dialogue": "A: " + "so " * draw.randint(0, 20), "summary": "yes " * draw.randint(1, 3)}
        for number in range(60)
    ]
    path.write_text(json.dumps(records))
    return path


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory, program):
    """A Hugging Face folder of the test model: headers as published, numbers drawn with another seed."""
    import numpy as np
    from llmperf_huggingface.export import huggingface_config
    from llmperf_lora.stored_weights import weight_shapes
    from safetensors.numpy import save_file

    facts = program.make_spec({"framework": "lora"}).model
    folder, draw = tmp_path_factory.mktemp("checkpoint"), np.random.default_rng(7)
    tensors = {
        name: (np.ones(shape) if len(shape) == 1 else draw.normal(0, 0.05, shape)).astype("<f4")
        for name, shape in weight_shapes(facts).items()
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = huggingface_config(facts)
    config["rope_parameters"] = {"rope_theta": config.pop("rope_theta"), "rope_type": "default"}
    (folder / "config.json").write_text(json.dumps(config))
    return folder
