"""The plain PyTorch plugin's fixtures, with ranks that also look at adapters; files to train on."""

from __future__ import annotations

import csv
import importlib.util
import json
import random
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "pytorch" / "tests" / "conftest.py"

_specification = importlib.util.spec_from_file_location("llmperf_pytorch_test_fixtures", SHARED)
_shared = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(_shared)
_shared.PROGRAM = Path(__file__).with_name("lora_program.py")
program, train = _shared.program, _shared.train

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
