"""The committed schemas and reference pages are rendered from the dataclasses, hooks and docstrings."""

import json
import subprocess
import sys
from pathlib import Path

import llmperf_schemas
import pytest
from llmperf.cases import fields
from llmperf.files import json_files
from llmperf.types import Case, Model, Plan, Result, StepRecord

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
from rendering import fields as rendering_fields
from rendering.documents import render


@pytest.mark.slow
def test_committed_schemas_and_pages_are_those_of_the_code():
    """In a process of its own: what other tests load must not reach the pages."""
    script = Path(__file__).parents[1] / "docs" / "render.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"run: ./dev python docs/render.py\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize(
    ("name", "kind"), [("result", Result), ("plan", Plan), ("case", Case), ("model", Model), ("record", StepRecord)]
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


def test_the_largest_integer_of_settings_is_that_of_the_schemas():
    assert fields.LARGEST_INTEGER == rendering_fields.LARGEST_INTEGER
