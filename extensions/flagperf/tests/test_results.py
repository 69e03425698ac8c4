"""Result tables of FlagPerf's `base` and `operation`: their rows, and what the rules find in them."""

import json
from pathlib import Path

from llmperf import read_toml
from llmperf.cli.main import call

BASE = Path(__file__).with_name("base_readme.md").read_text()
OPERATION = BASE.replace("| 评测结果 | {} |", "| nativetorch | 5.46E-01 | 0.15TFLOPS | 0.14TFLOPS | 0.59% | 0.58% |")
ROWS = read_toml(Path(__file__).with_name("configurations.toml"))["rows"]


def test_tables_are_read_and_checked(tmp_path, ran, capsys):
    for folder, cells in {**ROWS, "operation/benchmarks/exp": ""}.items():
        path = tmp_path / folder / "nvidia" / "A100" / "README.md"
        path.parent.mkdir(parents=True)
        path.write_text(BASE.format(cells) if cells else OPERATION)
    assert call(["import", str(tmp_path / "base"), str(tmp_path / "operation"), "--out", str(tmp_path / "out")]) == 0
    assert "7 rows: 3 agrees, 1 wrong, 3 not checked" in capsys.readouterr().out
    path = tmp_path / "out" / "flagperf_results.json"
    rows = json.loads(path.read_text())["rows"]
    assert [row["directions"] for row in rows if "P2P" in row["benchmark"]] == [1, 2]
    for command in ("report", "summary"):
        found = ran(0, command, path, "--wide").out
        assert all(text in found for text in ("computation-BF16", "259.2TFLOPS", "624.0TFLOPS", "agrees"))
    found = ran(1, "validate", path).out
    assert "FLAGPERF1 error expected 77.25% (1390.5GB/s / 1.8TB/s), found 75.44%" in found
    assert "FLAGPERF2 error expected at most 100 %, found 101.95%" in found
    assert "FLAGPERF3 warning expected 312TFLOPS (" in found
    assert "FLAGPERF4 warning expected a mean relative error of at most 0.1, found 0.546" in found
