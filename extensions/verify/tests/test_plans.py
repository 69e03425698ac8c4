"""Claims of a plan about its devices, peak, plugins, problems and model."""

import llmperf_schemas
import pytest
from llmperf.files.json_files import convert
from llmperf.types import Plan
from llmperf.validation.check import findings


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("LP318", {"/peak/device_model": "Example CPU, 64 cores"}),
        ("LP318", {"/peak/date": "2026-13-01"}),
        ("LP318", {"/peak/date": "soon"}),
        ("LP652", {"/plugins": []}),
        ("LP652", {"/plugins/1/role": "extension"}),
        ("LP652", {"/plugins/0/name": "../../x"}),
        ("LP652", {"/plugins/2/name": "c\x1b[2Jpu"}),
        ("LP650", {"/worker/problems": [{"code": "none_of_them", "where": "tuning", "message": "no"}]}),
        ("LP308", {"/device_share": 0.3}),
        ("LP308", {"/device_share": 1.0}),
        ("LP308", {"/vendor": "nvidia", "/probe/devices/0/model": "NVIDIA A100-SXM4-40GB"}),
        ("LP607", {"/spec/model/layers": 8}),
    ],
)
def test_claims_of_a_plan_are_judged(code, values):
    plan = llmperf_schemas.example("plan")
    for pointer, value in values.items():
        *folders, leaf = pointer[1:].split("/")
        table = plan
        for folder in folders:
            table = table[int(folder) if isinstance(table, list) else folder]
        table[leaf] = value
    assert code in {finding.code for finding in findings("plan", convert(plan, Plan, "plan"))}
