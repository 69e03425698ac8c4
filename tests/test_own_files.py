"""The package of docs/own-files.md: its model, case and overlay are planned with."""

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
