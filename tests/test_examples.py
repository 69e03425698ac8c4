"""The example is what `llmperf new` makes, and what it makes works where nothing of it was written by hand."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llmperf.cli.main import call

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "llmperf-acme"
UV = os.environ.get("UV") or shutil.which("uv")
OF_A_BUSY_MACHINE = {"LP209", "LP222", "LP237", "LP238", "LP409"}
"""Findings that say what else the machine did during a run."""
TWO_RANKS = "tests/test_own.py::test_losses_are_those_of_plain_pytorch[2]"
"""Only on request: the kit compares every loss on two ranks with those of its reference."""
NOT_OURS = {"__pycache__", ".pytest_cache", ".venv", "dist", "runs"}


def contents(folder):
    """Every file of a package by its path; what tools leave there is not counted."""
    files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {str(name): path.read_bytes() for name, path in files.items() if not NOT_OURS & set(name.parts)}


def test_the_example_is_what_a_new_vendor_is(tmp_path, capsys):
    assert call(["new", "vendor", "acme", "--out", str(tmp_path)]) == 0
    made, kept = contents(tmp_path / "llmperf-acme"), contents(EXAMPLE)
    assert sorted(made) == sorted(kept)
    stale = [name for name in made if made[name] != kept[name]]
    assert not stale, "remove examples/llmperf-acme and run: llmperf new vendor acme --out examples"


def run(*argv, cwd, site=None):
    """What a command prints, with the packages in `site` installed beside llmperf."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {} if site is None else {"PYTHONPATH": str(site)}
    done = subprocess.run([str(word) for word in argv], cwd=cwd, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a new vendor and new frameworks, and `site`, where they are installed; nothing is fetched."""
    if UV is None:
        pytest.skip("needs uv, which builds and installs the packages")
    folder = tmp_path_factory.mktemp("made")
    for words in (("vendor", "acme"), ("framework", "my-loop"), ("framework", "my-script", "--script")):
        run(sys.executable, "-m", "llmperf", "new", *words, cwd=folder)
    install = [UV, "pip", "install", "-q", "--offline", "--no-deps", "--no-build-isolation", "--python", sys.executable]
    run(*install, "--target", "site", "./llmperf-acme", "./llmperf-my-loop", "./llmperf-my-script", cwd=folder)
    return folder


@pytest.mark.slow
def test_a_new_vendor_is_chosen_by_name_runs_the_default_case_and_says_that_it_is_simulated(made):
    llmperf = [sys.executable, "-m", "llmperf"]
    plan = json.loads(run(*llmperf, "plan", "--json", cwd=made, site=made / "site"))["plan"]
    assert plan["vendor"] != "acme"
    of_acme = run(*llmperf, "plan", "--vendor", "acme", "--json", cwd=made, site=made / "site")
    assert "acme_default.toml" in json.dumps(json.loads(of_acme)["fix_hp"])
    settings = ["--set", "model=llama_tiny", "--set", "steps=6", "--set", "warmup_steps=2"]
    printed = run(*llmperf, "run", "--vendor", "acme", *settings, "--json", cwd=made, site=made / "site")
    result = json.loads(printed)["result"]
    assert (result["status"], result["tuning"]["framework"]) == ("complete", "zero")
    hardware = result["hardware"]
    assert (hardware["vendor"], hardware["device_model"], hardware["simulated"]) == ("acme", "Acme stand-in", True)
    assert {one["value"] for one in result["mfu"]} == {None}
    codes = [one["code"] for one in result["findings"]]
    here = {*OF_A_BUSY_MACHINE, "LP206", "LP236", "LP655"}  # six steps, with the packages on PYTHONPATH
    assert [code for code in codes if code not in here] == ["LP605"]
    assert "acme_default.toml" not in json.dumps(result["fix_hp"])  # made for the model of the case


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "package",
    ["llmperf-acme", *(pytest.param(f"llmperf-my-{kind}", marks=pytest.mark.long) for kind in ("loop", "script"))],
)
def test_a_new_package_passes_its_own_tests(package, made):
    """The contract, and for a framework the same losses as plain PyTorch's; on two ranks they are the contract's."""
    words = [] if os.environ.get("LLMPERF_ALL_TESTS") else ["--deselect", TWO_RANKS]
    pytest_words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    out = run(sys.executable, *pytest_words, cwd=made / package, site=made / "site")
    assert " passed" in out
    assert "failed" not in out


NOTEBOOK = Path(__file__).parents[1] / "examples" / "results.ipynb"


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(run_folder, monkeypatch):
    pytest.importorskip("pandas")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    runs = run_folder.parent / "runs"
    runs.mkdir()
    run_folder.rename(runs / "20260115-093005-example")
    monkeypatch.chdir(runs.parent)
    names: dict[str, Any] = {}
    shown = [
        displayed(cell, names) for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"
    ]
    assert repr(shown[0]) == "<LoadedResults: 1 measured, 0 imported>"
    assert shown[1].tokens_per_second_per_device.item() > 0
    assert shown[2]["count"].item() == 1
    assert shown[3].loss.notna().all()
    assert [axes.get_lines()[0].get_ydata().size for axes in names["axes"]] == [len(names["steps"])] * 2
    assert len(shown[5]) == 10
    assert shown[5].tokens_per_second_per_device.is_monotonic_decreasing


def displayed(cell, names):
    """Executes a cell; the value of its last expression, which a notebook displays."""
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
