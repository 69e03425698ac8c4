"""What reports show of imported rows beside the printed figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from llmperf.cli.main import call
from llmperf.reporting import shown, standings
from llmperf.reporting.reading import read_sheets

PUBLISHED = Path(__file__).parents[3] / "published"


def entries(document):
    sheets, _ = read_sheets((PUBLISHED / document,), print)
    return [entry for standing in standings(sheets) for entry in standing.entries]


def test_mfu_is_computed_where_the_table_prints_none():
    """The table of Paddle prints none: 4,267 tokens/s x 6 x 7e9 / 312e12 is 57.4 %."""
    fastest = next(entry for entry in entries("llama1_paddle_a100") if entry.speed == 4267)
    assert fastest.figures["mfu_nominal"].how == "computed"
    assert fastest.figures["mfu_nominal"].median == pytest.approx(0.574, abs=5e-4)


def test_a_printed_mfu_stays():
    shares = [entry.figures["mfu_nominal"] for entry in entries("llama2_7b_megatron_deepspeed_a100")]
    assert [(share.median, share.how) for share in shares] == [(0.391, "printed"), (0.386, "printed")]


def test_nothing_is_computed_where_the_precision_may_mean_two_peaks():
    """fp32 on an A100 may be TF32, whose peak is eight times as high."""
    single = next(entry for entry in entries("llama2_7b_lora_a100") if entry.speed == 2788)
    assert "mfu_nominal" not in single.figures


def test_the_terminals_table_shows_the_contract_and_marks_a_computed_mfu(capsys):
    assert call(["report", str(PUBLISHED / "llama1_paddle_a100"), "--wide"]) == 0
    text = capsys.readouterr().out
    (fastest,) = (line for line in text.splitlines() if " 4267 " in line)
    assert "fp16, 2048, 2048" in fastest
    assert "57.4 % *" in fastest
    assert "* computed by llmperf: the document prints no MFU" in text


def test_a_row_of_an_imported_document_shows_its_computed_mfu():
    sheets, _ = read_sheets((PUBLISHED / "llama1_paddle_a100",), print)
    (performance,) = (part for part in sheets[0].sections() if part.key == "performance")
    assert {row.label: shown(row) for row in performance.rows}["MFU (nominal), computed"] == "57.4 %"
