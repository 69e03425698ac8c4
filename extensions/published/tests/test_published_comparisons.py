"""Tables whose rows are on devices of several vendors, and devices that nobody knows."""

import csv
import io
import json
from pathlib import Path

import pytest
from llmperf.cli.main import call
from llmperf_published.rules.verdicts import judged
from published_tables import read

HEADER = "| Model | Accelerator | Precision | Seq len | GBS | tokens/s/GPU | MFU |\n" + "|---" * 7 + "|\n"
A100, MI300X, UNKNOWN = (
    f"| llama2_7b | {cells} |\n"
    for cells in (
        "A100-SXM4-80GB (1x8) | bf16 | 4096 | 32 | 3700 | 49.8%",
        "MI300X (1x8) | bf16 | 4096 | 32 | 12000 | 38.5%",
        "Zorblax Z9 (1x8) | bf16 | 4096 | 32 | 6000 | 50.4%",
    )
)
ENVIRONMENT = "## Hardware environment\n- Accelerator: NVIDIA A100-SXM4-80GB\n\n## Performance\n"
PEAKS = """[[device]]
model = "Zorblax Z9"
memory_gib = 64
dense_tflops = { bf16 = 500 }
source = "data sheet"
date = "2026-01"
"""
AGREE = [
    ("agrees", "MFU by the nominal convention, of 312 TFLOP/s"),
    ("agrees", "MFU by the nominal convention, of 1307 TFLOP/s"),
]
WHY_NOT = 'the vendor of "Zorblax Z9 (1x8)" is not known; peaks of your own: `llmperf import --peaks FILE`'


def outcomes(text):
    """The verdicts with their first reason, and the codes of errors and warnings."""
    findings, verdicts = judged(read(text))
    codes = {finding.code for finding in findings if finding.severity != "note"} - {"LP614"}
    return [(verdict.outcome, verdict.why[0]) for verdict in verdicts], codes


@pytest.mark.parametrize("beginning", ["", "# Comparison\n", "# A100 and AMD Instinct MI300X\n", "# MI300X\n",
                                       "# NVIDIA A100, AMD MI300X\n", "# Results\n" + ENVIRONMENT])  # fmt: skip
def test_each_row_of_a_comparison_is_checked_against_its_own_vendors_peak(beginning):
    assert outcomes(beginning + HEADER + A100 + MI300X + UNKNOWN) == ([*AGREE, ("not checked", WHY_NOT)], set())
    assert outcomes(beginning + HEADER + MI300X + A100) == (AGREE[::-1], set())


def test_a_document_whose_title_names_its_vendor_has_no_other_vendors_devices():
    verdicts, codes = outcomes("# NVIDIA results\n" + HEADER + A100 + MI300X)
    assert verdicts == [AGREE[0], ("wrong", "LP612")]
    assert "LP612" in codes


def test_an_environment_of_which_no_row_is_a_copied_table():
    verdicts, _ = outcomes("# Results\n" + ENVIRONMENT + HEADER + MI300X)
    assert verdicts == [("wrong", "LP612")]


SINGLE = "# Results\n" + ENVIRONMENT + HEADER + A100


@pytest.mark.parametrize("others", ["", MI300X])
def test_an_own_device_is_checked_by_its_peak_and_has_no_vendor(tmp_path, imported, ran, others):
    (tmp_path / "peaks.toml").write_text(PEAKS)
    *_, last = imported(SINGLE + others + UNKNOWN, "--peaks", "peaks.toml")[1]
    assert (last["verdict"], last["vendor"]) == ("agrees", None)
    assert last["why"][0] == "MFU by the nominal convention, of 500 TFLOP/s"
    vendors = {kind["device"]: kind["vendor"] for kind in json.loads(ran(0, "summary", "out", "--json").out)}
    assert vendors["Zorblax Z9"] is None
    assert vendors["NVIDIA A100-SXM4-80GB"] == "nvidia"


def test_the_table_of_imports_names_the_vendors_of_a_comparison_and_json_no_single_one(imported, ran):
    rows = imported(HEADER + A100 + MI300X)[1]
    assert [row["vendor"] for row in rows] == ["nvidia", "rocm"]
    assert " nvidia, rocm " in ran(0, "import", "t.md", "--out", "again").out
    assert json.loads(ran(0, "import", "t.md", "--out", "json", "--json").out)[0]["vendor"] is None


def test_an_unknown_device_is_named_once_and_can_be_priced(imported, ran):
    imported(SINGLE + UNKNOWN)
    price = '[prices."Zorblax Z9"]\nper_hour = 3.6\ncurrency = "USD"\ndate = 2026-11-01\nsource = "an offer"\n'
    Path("prices.toml").write_text(price)
    rows = list(csv.DictReader(io.StringIO(ran(0, "report", "out", "--prices", "prices.toml", "--format", "csv").out)))
    assert (rows[1]["device_model"], rows[1]["vendor"]) == ("Zorblax Z9", "")
    assert float(rows[1]["cost_per_million_tokens"]) == pytest.approx(3.6 / 3600 / 6000 * 1e6)
    text = ran(0, "report", "out", "--wide").out
    assert "1x8 Zorblax Z9 " in text
    assert "Zorblax Z9 (1x8)" not in text


def test_a_site_has_an_unknown_device_on_no_vendors_page(imported):
    imported(SINGLE + UNKNOWN)
    assert call(["site", "out", "--out", "site"]) == 0
    (vendor,) = Path("site", "vendors").glob("*.html")
    assert "A100-SXM4-80GB" in vendor.read_text()
    assert "Zorblax" not in vendor.read_text()
    (device,) = Path("site", "devices").glob("zorblax*.html")
    assert "6000" in device.read_text()
    assert "NVIDIA" not in device.read_text().partition("<main")[2].partition("</main")[0]
