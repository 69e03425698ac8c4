"""The package of docs/own-files.md: its model, case and overlay are planned with."""

import hashlib
import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[1] / "docs" / "own-files.md").read_text()
BLOCKS = dict(re.findall(r"```(?:toml|python)\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))


@pytest.mark.slow
def test_the_files_of_the_guide_are_planned_with(install, tmp_path, ran, monkeypatch):
    install("llmperf-mine", "mine", BLOCKS["plugin.py"], role="extension")
    for name, text in BLOCKS.items():
        if "/" in name:
            path = tmp_path / "data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    monkeypatch.chdir(tmp_path / "data" / "cases")
    assert "my_llama" in ran(0, "models").out
    for case in ("my_pretrain", "./my_pretrain.toml"):
        shown = ran(0, "plan", case).out
        assert "my_llama, 1,705,600 parameters" in shown
        assert "tuning.micro_batch 2 -> 1 (overlay my_pretrain_cpu.toml)" in shown


@pytest.mark.slow
def test_a_framework_in_one_file_trains_and_its_result_names_the_file(tmp_path, result_of_run):
    (tmp_path / "plugins").mkdir()
    hooks = ("llmperf_build_trainer", "llmperf_plan_workers")
    source = "".join(f"from llmperf_pytorch.plugin import {hook} as {hook}\n" for hook in hooks)
    (tmp_path / "plugins" / "framework_mine.py").write_text(source)
    words = ["default", "--framework", "mine", "--vendor", "cpu", "--devices", "1", "--set", "model=llama_tiny"]
    result = result_of_run(*words, "--set", "steps=10", LLMPERF_PLUGINS_DIR="plugins")  # ranks run in another folder
    (plugin,) = [plugin for plugin in result["plugins"] if plugin["name"] == "mine"]
    assert (result["status"], plugin["distribution"]) == ("complete", "framework_mine.py")
    assert plugin["version"] == f"sha256-{hashlib.sha256(source.encode()).hexdigest()[:12]}"
