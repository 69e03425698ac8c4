"""Units of figures: percent by the magnitude of a whole column, and cells whose unit contradicts their column."""

from __future__ import annotations

import json

import pytest
from llmperf.cases.library import library
from llmperf.cli.main import call
from llmperf.validation.check import findings
from llmperf_published.reading.document import import_document
from llmperf_published.reading.library_match import Known

HEAD = """
# NVIDIA configuration and results
## Hardware environment
- Accelerator: NVIDIA A100-SXM4-80GB
## General metrics
| item | value | remark |
| --- | --- | --- |
| model | llama2_7b | |
| precision | bf16 | |
## Performance metrics
"""


@pytest.fixture(scope="module")
def read():
    known = Known.of(library())

    def read_rows(header, *cells, name="MFU"):
        columns = f"| configuration | token/p/s | {header} |\n| --- | --- | --- |\n"
        rows = "".join(f"| A100 (1x8) | 3000 | {cell} |\n" for cell in cells)
        return import_document((HEAD + columns + rows).encode(), "README.md", known)

    return read_rows


def values(document, name="mfu"):
    figures = (getattr(row.metrics, name) for row in document.rows)
    return [None if item is None else item.value for item in figures]


def result(document, *codes):
    return [item.code for item in findings("published", document) if item.code in codes]


@pytest.mark.parametrize("header", ["MFU", "HFU"])
@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("42.57", "40.4"), [0.4257, 0.404]),
        (("42.57", "1.3"), [0.4257, 0.013]),
        (("42.57", "0.404"), [0.4257, None]),
        (("0.4257", "0.404"), [0.4257, 0.404]),
        (("40.4%", "42.57"), [0.404, 0.4257]),
        (("40.4%", "0.4257"), [0.404, 0.4257]),
        (("1.3", "0.4"), [None, 0.4]),
        (("42.57", "/"), [0.4257, None]),
        (("38.6 %", "0.5%"), [0.386, 0.005]),
    ],
)
def test_shares_without_a_unit_are_read_by_their_whole_column(read, header, cells, expected):
    document = read(header, *cells)
    assert values(document, header.lower()) == expected
    unclear = [number for number, value in enumerate(expected) if value is None and cells[number] != "/"]
    assert [item.text for item in document.unread] == [cells[number] for number in unclear]
    assert "LP313" not in result(document, "LP313")


def test_how_a_column_was_read_is_told(read):
    assert result(read("MFU", "42.57", "40.4"), "LP217") == ["LP217"]
    for header, cells in (("MFU (%)", ("42.57", "40.4")), ("MFU", ("42.57%", "40.4%")), ("MFU", ("0.42", "0.4"))):
        assert result(read(header, *cells), "LP217") == []
    document = read("MFU", "42.57", "40.4")
    assert document.tables[1].columns[2].unit == "percent"


def test_a_column_without_a_unit_is_checked_as_percent(read):
    assert result(read("MFU", "40.4", "27.3"), "LP311", "LP313") == ["LP311"]
    assert result(read("HFU", "140.4", "57.3"), "LP313") == ["LP313"]


@pytest.mark.parametrize(
    ("header", "cell", "message"),
    [
        ("tokens/p/s", "12.5 samples/s", "expected tokens a second under 'tokens/p/s', found samples/s"),
        ("tokens/p/s", "650 ms", "expected tokens a second under 'tokens/p/s', found ms"),
        ("tokens/p/s", "3000 TFLOPS", "expected tokens a second under 'tokens/p/s', found TFLOPS"),
        ("tokens/p/s", "40 %", "expected tokens a second under 'tokens/p/s', found %"),
        ("tokens/p/s", "①②", "expected a number under 'tokens/p/s'"),
        ("tokens/p/s", "³000", "expected a number under 'tokens/p/s'"),
        ("tokens/p/s", "30½", "expected a number under 'tokens/p/s'"),
        ("throughput", "650 ms", "expected tokens a second or samples or steps a second under 'throughput', found ms"),
        ("loss", "57/80", "expected one number under 'loss', found 57/80"),
        ("loss", "650 ms", "expected a number without a unit under 'loss', found ms"),
        ("loss", "40%", "expected a number without a unit under 'loss', found %"),
        ("MFU", "312 TFLOPS", "expected percent under 'MFU', found TFLOPS"),
    ],
)
def test_a_cell_with_another_unit_than_its_column_is_not_read(header, cell, message):
    text = HEAD + f"| configuration | mem | {header} |\n| --- | --- | --- |\n| A100 (1x8) | 32/80 | {cell} |\n"
    document = import_document(text.encode(), "README.md", Known.of(library()))
    metrics = document.rows[0].metrics
    assert (metrics.tokens_per_second_per_device, metrics.loss, metrics.mfu, metrics.other) == (None, None, None, {})
    assert [(item.line, item.text, item.reason) for item in document.unread] == [(13, cell, message)]


@pytest.mark.parametrize(
    ("header", "cell", "each", "whole"),
    [
        ("tokens/p/s", "2,868.5 token/p/s", 2868.5, None), ("tokens/p/s", "2868³", 2868, None),
        ("tokens/p/s", "４３００", 4300, None), ("tok/s/GPU", "2868", 2868, None), ("TPS/GPU", "2868", 2868, None),
        ("Tokens / sec / GPU", "2868", 2868, None), ("tok/s", "22944", None, 22944),
        ("throughput", "2868 tok/s/gpu", 2868, None),
        ("Throughput (T/s)", "22944", None, 22944), ("Throughput (T/s/GPU)", "2868", 2868, None),
        ("Throughput (tokens per second)", "22944 tokens per second", None, 22944),
    ],
)  # fmt: skip
def test_a_unit_that_fits_is_read(header, cell, each, whole):
    text = HEAD + f"| configuration | mem | {header} |\n| --- | --- | --- |\n| A100 (1x8) | 32/80 | {cell} |\n"
    metrics = import_document(text.encode(), "README.md", Known.of(library())).rows[0].metrics
    figures = (metrics.tokens_per_second_per_device, metrics.tokens_per_second)
    assert tuple(item and item.value for item in figures) == (each, whole)


def test_samples_a_second_are_no_tokens_whatever_the_general_table_says():
    general = HEAD.replace("| precision", "| throughput | token/p/s, see the table | |\n| precision")
    text = (
        general + "| configuration | mem | throughput |\n| --- | --- | --- |\n| A100 (1x8) | 32/80 | 12.5 samples/s |\n"
    )
    document = import_document(text.encode(), "README.md", Known.of(library()))
    assert document.rows[0].metrics.tokens_per_second_per_device is None


def test_csv_and_json_have_the_share_of_hardware_flops(read, tmp_path, capsys):
    (tmp_path / "README.md").write_text(
        HEAD + "| configuration | token/p/s | MFU | HFU |\n|---|---|---|---|\n| A100 (1x8) | 3000 | 41.2 | 54.9 |\n"
    )
    assert call(["import", str(tmp_path / "README.md"), "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert call(["report", str(tmp_path / "out"), "--format", "csv"]) == 0
    assert "0.549" in capsys.readouterr().out
    assert call(["report", str(tmp_path / "out"), "--json"]) == 0
    assert '"hfu"' in json.dumps(json.loads(capsys.readouterr().out))


def test_english_columns_of_accelerators(read):
    text = "# Results on NVIDIA\n| Model | # GPUs | GPU | MFU | HFU | GradAccum | Throughput (T/s/GPU) | Precision |\n"
    text += "|---|---|---|---|---|---|---|---|\n| 7b | 8 | h100_80gb | 42.57 | 56.2 | 2 | 9000 | bf16 |\n"
    document = import_document(text.encode(), "README.md", Known.of(library()))
    row, where = document.rows[0], document.rows[0].hardware
    assert [item.text for item in document.unread] == ["Results on NVIDIA"]
    assert (where.device, where.device_memory, where.devices) == ("h100", 80, 8)
    assert (row.metrics.mfu.value, row.metrics.hfu.value, row.batch.gradient_accumulation) == (0.4257, 0.562, 2)
