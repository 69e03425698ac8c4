"""Folders of runs with given throughputs."""

import json
from itertools import count

import pytest


@pytest.fixture
def folder(example, tmp_path, saved):
    """Write a folder of runs with given throughputs; its path. Runs of a test are numbered from 10 on."""
    numbers = count(10)

    def write(name, throughputs, **changed):
        for figure in throughputs:
            number = next(numbers)
            document = json.loads(json.dumps(example)) | {"run_id": f"run-{number}", "fix_hp": []}
            document["files"]["records/rank-00000.jsonl"] = f"{number:064x}"
            window = 30 + number * 1e-9
            document["metrics"] |= {"tokens_per_second_per_device": figure, "window_seconds": window}
            for part, value in changed.items():
                document[part] = document[part] | value if isinstance(value, dict) else value
            saved(tmp_path / name / document["run_id"] / "result.json", document)
        return str(tmp_path / name)

    return write
