"""Results that no CPU can have."""

import llmperf_schemas
import pytest
from llmperf.files import json_files
from llmperf.types import Plan, Result
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
def test_a_cpu_has_no_products_in_fp8_unless_they_are_emulated(precision, emulated, found):
    document = llmperf_schemas.example("result")
    document["contract"]["precision"] = precision
    document["tuning"]["emulate_precision"] = emulated
    result = json_files.convert(document, Result, "result")
    assert rules.precision_of_a_cpu.check is not None
    assert len(list(rules.precision_of_a_cpu.check(result))) == found


@pytest.mark.parametrize(
    ("flops", "cores", "codes"), [(9.7e10, 16, []), (9.7e9, 2, ["CPU3"]), (7e12, 2, []), (8e12, 2, ["CPU2"])]
)
def test_forgery_b_a_peak_that_two_cores_cannot_have_or_of_a_part_of_them(flops, cores, codes):
    document = llmperf_schemas.example("plan")
    details = {"cores": "2", "architecture": "x86_64", "machine_cores": str(cores)}
    document["probe"]["devices"][0]["details"] = details
    document["peak"]["flops_per_second"] = flops
    plan = json_files.convert(document, Plan, "plan")
    checks = {one.code: one.check for one in (rules.possible_peak, rules.low_peak)}
    assert [code for code, check in checks.items() if check is not None and list(check(plan))] == codes
    assert rules.all_cores.check is not None
    assert len(list(rules.all_cores.check(type("Run", (), {"plan": plan})))) == (cores > 2)
