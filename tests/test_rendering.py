"""The published schemas are what the dataclasses say."""

from __future__ import annotations

import json

import llmperf_schemas
import pytest
from llmperf.files import json_files
from llmperf.types import Case, Model, Plan, Result, StepRecord
from llmperf.validation.rendering.documents import render, target


@pytest.mark.parametrize("name", llmperf_schemas.names())
def test_committed_schema_is_in_step_with_the_dataclasses(name):
    rendered = json_files.encode_pretty(render(name)).decode()
    committed = target(name).read_text()
    assert committed == rendered, "run: uv run python -m llmperf.validation.rendering"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("result", Result), ("plan", Plan), ("case", Case), ("model", Model), ("record", StepRecord)],
)
def test_example_fits_the_dataclass_and_comes_back_the_same(name, kind):
    example = llmperf_schemas.example(name)
    assert json.loads(json_files.encode(json_files.convert(example, kind, name))) == example


def test_bounds_choices_and_none_reach_the_schema():
    properties = render("result")["$defs"]["Layout"]["properties"]
    assert properties["nodes"]["minimum"] == 1
    assert properties["sharding_stage"]["enum"] == [0, 1, 2, 3]
    assert render("result")["$defs"]["Metrics"]["properties"]["first_loss"]["type"] == ["number", "null"]
    assert "None" not in json_files.encode(render("result")).decode()
