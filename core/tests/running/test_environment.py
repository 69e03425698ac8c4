"""Code that the user's environment loads into the ranks: a result names it, and validation warns of it."""

import os

import pytest
from llmperf.plugins.loading import load_for
from llmperf.running.launched import run_plan
from llmperf.validation.catalogue import Catalogue
from llmperf.validation.check import findings


@pytest.mark.slow
def test_a_module_that_the_interpreter_imports_by_itself_is_named_and_warned_of(stub_plan, tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    custom = tmp_path / "site" / "sitecustomize.py"
    custom.write_text("")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(custom.parent), os.environ["PYTHONPATH"]]))
    monkeypatch.setenv("STUB_TOKEN", "a-secret-of-the-user")
    result = run_plan(stub_plan(steps=6, ranks=2), tmp_path / "run", load_for("stub", "stub"))
    assert result.software.startup_modules == {"sitecustomize": str(custom)}
    found = [one for one in findings("result", result, Catalogue(load_for("stub", "stub"))) if one.code == "LP655"]
    assert [(one.severity, one.path) for one in found] == [
        ("warning", "/software/environment/PYTHONPATH"),
        ("warning", "/software/startup_modules/sitecustomize"),
    ]
    assert "a-secret-of-the-user" not in (tmp_path / "run" / "result.json").read_text()
