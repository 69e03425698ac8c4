"""Results that no NVIDIA GPU can have."""

from __future__ import annotations

from typing import Any

import llmperf_schemas
import pytest
from llmperf.files import json_files
from llmperf.types import Result
from llmperf_nvidia import rules


@pytest.mark.parametrize(
    ("packages", "found"),
    [
        ({"torch": "2.9.0+cu128"}, 0),
        ({"torch": "2.9.0+cpu"}, 1),
        ({"torch": "2.9.0+cpu", "paddle": "3.2.0"}, 0),
        ({"torch": "2.9.0"}, 0),
    ],
)
def test_a_torch_without_cuda_trains_on_no_gpu(packages, found):
    document: dict[str, Any] = llmperf_schemas.example("result")
    document["hardware"]["vendor"] = "nvidia"
    document["software"]["packages"] = packages
    result = json_files.convert(document, Result, "result")
    assert rules.torch_for_gpus.check is not None
    assert len(list(rules.torch_for_gpus.check(result))) == found
