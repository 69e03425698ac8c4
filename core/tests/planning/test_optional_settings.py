"""Settings that only some frameworks support."""

from __future__ import annotations

import pytest
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site


@pytest.mark.parametrize(
    ("setting", "nearest"),
    [("pipeline_schedule=zero_bubble", "1f1b"), ("virtual_stages=2", "1")],
)
def test_setting_that_the_framework_does_not_list_is_refused(setting, nearest):

    drafted = plan_only(Selection("llama2_7b_lora", settings=(setting,)), Site(vendor="cpu", devices=1))
    problem = next(problem for problem in drafted.problems if problem.code == "setting_not_supported")
    assert problem.where == f"tuning.{setting.partition('=')[0]}"
    assert f"nearest: --set {setting.partition('=')[0]}={nearest}" in problem.message
