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
    import struct

    import numpy as np
    from llmperf_lora.stored_weights import weight_shapes

    facts = program.make_spec({"framework": "lora"}).model
    folder, draw = tmp_path_factory.mktemp("checkpoint"), np.random.default_rng(7)
    header, parts, end = {}, [], 0
    for name, shape in weight_shapes(facts).items():
        numbers = np.ones(shape) if len(shape) == 1 else draw.normal(0, 0.05, shape)
        parts.append(numbers.astype("<f4").tobytes())
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end := end + len(parts[-1])]}
    text = json.dumps({**header, "__metadata__": {"format": "pt"}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    config = {
        "model_type": "llama",
        "hidden_size": facts.hidden_size,
        "intermediate_size": facts.intermediate_size,
        "num_hidden_layers": facts.layers,
        "num_attention_heads": facts.attention_heads,
        "num_key_value_heads": facts.kv_heads,
        "vocab_size": facts.vocab_size,
        "max_position_embeddings": facts.max_positions,
        "rms_norm_eps": facts.norm_eps,
        "rope_parameters": {"rope_theta": facts.rope_theta, "rope_type": "default"},
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder
