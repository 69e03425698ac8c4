"""What reports show of imported rows beside the printed figures."""

import re
from pathlib import Path

from llmperf.cli.main import call
from llmperf.reporting import shown
from llmperf.reporting.reported_documents import read_sheets
from llmperf_compare.ranking import standings

PUBLISHED = Path(__file__).parents[1] / "src/llmperf_published/data"
SCALED = {"1x8": 3000, "2x8": 2800}


def entries(document):
    sheets, _ = read_sheets((PUBLISHED / document,), print)
    return [entry for standing in standings(sheets) for entry in standing.entries]


def test_a_printed_mfu_stays():
    shares = [entry.figures["mfu_nominal"] for entry in entries("llama2_7b_megatron_deepspeed_a100")]
    assert [(share.median, share.how) for share in shares] == [(0.391, "printed"), (0.386, "printed")]


def test_nothing_is_computed_where_the_precision_may_mean_two_peaks():
    """fp32 on an A100 may be TF32, whose peak is eight times as high."""
    single = next(entry for entry in entries("llama2_7b_lora_a100") if entry.speed == 2788)
    assert "mfu_nominal" not in single.figures


def test_the_terminals_table_shows_the_contract_and_marks_a_computed_mfu(ran):
    text = ran(0, "report", PUBLISHED / "llama1_paddle_a100", "--wide").out
    (fastest,) = (line for line in text.splitlines() if " 4267 " in line)
    assert "fp16, 2048, 2048" in fastest
    assert "57.4 % *" in fastest
    assert "* computed by llmperf: the document prints none that is understood" in text


def test_a_row_of_an_imported_document_shows_its_computed_mfu():
    sheets, _ = read_sheets((PUBLISHED / "llama1_paddle_a100",), print)
    (performance,) = (part for part in sheets[0].sections() if part.key == "performance")
    assert {row.label: shown(row) for row in performance.rows}["MFU (nominal), computed"] == "57.4 %"


def test_the_scaling_efficiency_of_imported_rows_is_computed(tmp_path, monkeypatch):
    """No document prints it: 2x8 devices at 2,800 token/p/s beside 1x8 at 3,000 are 93.3 %."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"| llama2_7b | A100 ({grid}) | bf16 | 4096 | 64 | {speed} |\n" for grid, speed in SCALED.items())
    header = "# NVIDIA results\n| model | configuration | precision | seq_len | GBS | token/p/s |\n"
    Path("results.md").write_text(header + "|---" * 6 + "|\n" + rows)
    assert call(["import", "results.md", "--out", "out"]) == 0
    assert call(["report", "out", "--format", "html", "-o", "report.html"]) == 0
    page = Path("report.html").read_text()
    (note,) = re.findall(r'>93[.]3 %</data></span> <span class="note">([^<]*)</span>', page)
    assert note == "computed"
