"""The action and the pre-commit hook for other repositories, the citation, and the directory of plugins."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from llmperf.plugins.own_packages import published
from pre_commit.clientlib import load_manifest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
from rendering import directory  # noqa: E402

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
INSTALL, COMPARE = ACTION["runs"]["steps"]


@pytest.fixture
def compared(tmp_path, run_folder):
    """The exit code, output and summary of the action's comparison of `results` with a run."""

    def compare(results, baseline=run_folder, fail_below="0.95"):
        summary = tmp_path / "summary.md"
        env = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path),
            "GITHUB_STEP_SUMMARY": str(summary),
            "RESULTS": results, "BASELINE": str(baseline), "FAIL_BELOW": fail_below,
        }  # fmt: skip
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", COMPARE["run"]]  # as GitHub runs it
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr, summary.read_text()

    return compare


def slower(run, tmp_path):
    """The result of another run with half the throughput."""
    result = json.loads((run / "result.json").read_text())
    result["run_id"] = "another"
    result["files"]["records/rank-00000.jsonl"] = "f" * 64
    result["metrics"]["tokens_per_second_per_device"] /= 2
    path = tmp_path / "slower" / "result.json"
    path.parent.mkdir()
    path.write_text(json.dumps(result))
    return path


def test_the_action_fails_a_job_that_got_slower(compared, run_folder, tmp_path):
    code, shown, summary = compared(f"{slower(run_folder, tmp_path)}\n")
    assert code == 1, shown
    assert "::error" in shown
    assert summary


def test_no_input_of_the_action_is_read_as_code(compared, tmp_path):
    assert not any("${{" in step["run"] for step in (INSTALL, COMPARE))
    code, shown, _ = compared("$(touch made)\n`touch made`; touch made\n--help", fail_below="0.9; touch made")
    assert code == 2, shown
    assert not (tmp_path / "made").exists()


def test_the_action_installs_folders_of_this_repository():
    folders = re.findall(r"\./(\S+)", INSTALL["run"])
    assert all((ROOT / folder / "pyproject.toml").is_file() for folder in folders)
    assert "extensions/compare" in folders


def test_the_hook_is_for_results(run_folder):
    (hook,) = load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))
    assert re.search(hook["files"], "runs/a/result.json")
    assert not re.search(hook["files"], "package.json")
    words = [sys.executable, "-m", *hook["entry"].split(), str(run_folder / "result.json")]
    assert subprocess.run(words, capture_output=True, timeout=60).returncode == 0


def test_the_citation_has_what_its_format_requires():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


def test_the_directory_lists_each_plugin_of_the_project_with_the_verdict_of_the_kit():
    listed = {(one.role, one.name): one.package for one in directory.plugins()}
    assert dict(published()).items() <= listed.items()
    assert set(json.loads(directory.CHECKS.read_text())) <= {" ".join(key) for key in listed}


def test_a_plugin_is_listed_once(tmp_path, monkeypatch):
    text = directory.FILE.read_text()
    (tmp_path / "plugins.toml").write_text(text + text[text.index("[[plugin]]") :].split("\n\n")[0])
    monkeypatch.setattr(directory, "FILE", tmp_path / "plugins.toml")
    with pytest.raises(ValueError, match="listed twice: vendor ascend"):
        directory.plugins()
