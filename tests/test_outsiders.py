"""Packages that other people wrote for earlier editions of the contract work, or are refused in one line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from llmperf.cli.main import call

EDITIONS = Path(__file__).parent / "outsiders"
PACKAGES = {
    ("519787c", "brass"): "vendor",
    ("519787c", "bellows"): "framework",
    ("519787c", "tongs"): "framework",
    ("519787c", "rivet"): "vendor",
    ("519787c", "flange"): "framework",
    ("519787c", "quench"): "extension",
    ("519787c", "winch"): "extension",
    ("519787c", "stamp"): "extension",
    ("f6ac8d91", "copper"): "vendor",
    ("f6ac8d91", "lathe"): "framework",
    ("f6ac8d91", "press"): "framework",
    ("f6ac8d91", "drill"): "extension",
}
SMALL = ["micro_batch=1", "steps=8", "contract.warmup_steps=2", "model=llama_tiny", "seq_len=16", "devices=1"]
RUN = ["default", *(word for setting in SMALL for word in ("--set", setting))]


def test_every_package_of_an_edition_is_installed_here():
    files = {(path.parent.name, path.stem.removeprefix("llmperf_")) for path in EDITIONS.glob("*/llmperf_*.py")}
    assert files == set(PACKAGES)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that installs packages of an edition for this process and those that it starts."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])))
    monkeypatch.chdir(tmp_path)

    def put(edition, *names):
        for name in names:
            module = f"llmperf_{name}"
            shutil.copy(EDITIONS / edition / f"{module}.py", site)
            info = site / f"{module}-0.1.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: llmperf-{name}\nVersion: 0.1\n")
            points = f"[llmperf.{PACKAGES[edition, name]}.v1]\n{name} = {module}\n"
            (info / "entry_points.txt").write_text(points)

    yield put
    for module in [module for module in sys.modules if module.removeprefix("llmperf_") in PACKAGES_BY_NAME]:
        del sys.modules[module]
    if catalogue := sys.modules.get("llmperf.validation.catalogue"):
        catalogue.forget_catalogues()


PACKAGES_BY_NAME = {name: role for (_, name), role in PACKAGES.items()}


def states(capsys):
    """What `llmperf plugins` says of each outsider's package."""
    assert call(["plugins", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    return {row["name"]: row["state"] for row in rows if row["name"] in PACKAGES_BY_NAME}


def test_the_listing_says_which_packages_of_the_first_edition_no_longer_work_and_why(installed, capsys):
    names = [name for edition, name in PACKAGES if edition == "519787c"]
    installed("519787c", *names)
    assert states(capsys) == {
        **dict.fromkeys(("brass", "bellows", "tongs", "winch", "stamp"), "ok"),
        "rivet": "broken: vendor 'rivet' (llmperf-rivet) cannot be imported: ImportError: llmperf.PeakTable is now"
        " llmperf_vendorkit.PeakTable",
        "flange": "broken: framework 'flange' (llmperf-flange): llmperf_flange.py, line 9:"
        " llmperf_pytorch.limits.needed_features is now llmperf.needed_features",
        "quench": "broken: extension 'quench' (llmperf-quench): hook 'llmperf_check_result' was removed; use"
        " llmperf_rules, which yields a Rule with a code, a severity and the function",
    }


def test_all_packages_of_the_second_edition_work(installed, capsys):
    names = [name for edition, name in PACKAGES if edition == "f6ac8d91"]
    installed("f6ac8d91", *names)
    assert states(capsys) == dict.fromkeys(names, "ok")


def test_a_problem_without_a_code_is_shown(installed, capsys):
    installed("519787c", "brass", "bellows")
    assert call(["plan", *RUN, "--vendor", "brass", "--framework", "bellows", "--set", "precision=bf16"]) == 2
    printed = capsys.readouterr().out
    assert (
        "contract.precision: bellows trains in fp32 only, found bf16; the nearest is fp32 [plugin_problem]" in printed
    )


@pytest.mark.parametrize(
    ("name", "words", "line"),
    [
        ("flange", ["plan", *RUN, "--framework", "flange"],
         "framework 'flange' (llmperf-flange): llmperf_plan_workers raised ImportError:"
         " llmperf_pytorch.limits.needed_features is now llmperf.needed_features (llmperf_flange.py, line 9)"),
        ("rivet", ["plan", *RUN, "--vendor", "rivet"],
         "vendor 'rivet' (llmperf-rivet) cannot be imported: ImportError: llmperf.PeakTable is now"
         " llmperf_vendorkit.PeakTable"),
        ("winch", ["plan", *RUN, "--launcher", "winch"],
         "extension 'winch' (llmperf-winch): llmperf_launchers: launcher 'winch' has no method nodes"),
        ("stamp", ["report", "RUN", "--format", "stamp"],
         "the stamp reporter raised TypeError: cannot unpack non-iterable Sheet object"),
    ],
)  # fmt: skip
def test_a_package_that_no_longer_fits_is_refused_in_one_line(installed, capsys, run_folder, name, words, line):
    installed("519787c", name)
    assert call([str(run_folder) if word == "RUN" else word for word in words]) == 2
    (shown,) = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("note")]
    assert shown.startswith(f"llmperf: {PACKAGES['519787c', name]} '{name}' (llmperf-{name})")
    assert line in shown


def ran(capsys, code, *words):
    """The result of a run, as JSON."""
    assert call(["run", *RUN, "--json", *words]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("edition", "vendor", "framework", "message"),
    [
        ("519787c", "brass", "bellows",
         "vendor 'brass' (llmperf-brass): llmperf_setup_device: expected a device with `places`, its names by tensor"
         " library (llmperf.types.Device), found none"),
        (
            "519787c",
            "cpu",
            "bellows",
            "expected the number of the model's parameters as parameter_count, found None",
        ),
        ("519787c", "brass", "tongs", None),
        ("f6ac8d91", "copper", "lathe", None),
        ("f6ac8d91", "copper", "press", None),
    ],
)  # fmt: skip
def test_a_run_with_packages_of_an_edition(installed, capsys, edition, vendor, framework, message):
    installed(edition, *{vendor, framework} - {"cpu"})
    document = ran(capsys, 0 if message is None else 1, "--vendor", vendor, "--framework", framework)
    result = document["result"]
    if message is not None:
        assert message in result["failure"]["message"]
        return
    assert result["status"] == "complete"
    assert result["metrics"]["tokens_per_second_per_device"] > 0
    assert "error" not in {finding["severity"] for finding in result["findings"]}, result["findings"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_door_of_the_second_edition_is_used_by_one_run(installed, capsys):
    installed("f6ac8d91", "copper", "lathe", "drill")
    chosen = ("--vendor", "copper", "--framework", "lathe", "--launcher", "drill", "--log", "drill=steps.jsonl")
    document = ran(capsys, 0, *chosen)
    folder = Path(document["folder"])
    assert json.loads((folder / "plan.json").read_text())["launcher"] == "drill"
    for lines in ((folder / "drill.jsonl").read_text(), Path("steps.jsonl").read_text()):
        assert [json.loads(line).get("step") for line in lines.splitlines()] == [*range(1, 9), None]
    assert {"COPPER1", "DRILL1"} <= {finding["code"] for finding in document["result"]["findings"]}
    assert document["result"]["metrics"]["evaluation"] == {"accuracy": 0.5}
    done = subprocess.run(
        [sys.executable, "-m", "llmperf", "report", str(folder), "--format", "drill"], capture_output=True, text=True
    )
    assert done.stdout == "llama_tiny\n", done.stderr
