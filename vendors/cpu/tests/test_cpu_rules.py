"""Results that no CPU can have."""

from __future__ import annotations

import llmperf_schemas
import pytest
from llmperf.files import json_files
from llmperf.types import Result
from llmperf_cpu import rules


@pytest.mark.parametrize(
    ("precision", "emulated", "found"),
    [
        ("fp32", False, 0),
        ("bf16", False, 0),
        ("fp8_tensorwise", False, 1),
        ("fp8_tensorwise", True, 0),
        ("fp16", False, 1),
    ],
)
def test_a_cpu_has_no_products_in_fp8_unless_they_are_emulated(precision: str, emulated: bool, found: int) -> None:
    document = llmperf_schemas.example("result")
    document["contract"]["precision"] = precision
    document["tuning"]["emulate_precision"] = emulated
    result = json_files.convert(document, Result, "result")
    assert rules.precision_of_a_cpu.check is not None
    assert len(list(rules.precision_of_a_cpu.check(result))) == found
