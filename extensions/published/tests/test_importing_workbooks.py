"""Tables of workbooks (.xlsx)."""

import io
import json
import zipfile
from pathlib import Path

import openpyxl
import pytest
from llmperf.cli.main import call

ROWS = [
    ["Hardware", "Model", "precision", "seq len", "tokens/s/GPU", "MFU"],
    ["8x A100-SXM4-80GB", "Llama 2 7B", "bf16", 4096, 3700, "49.8%"],
    ["8x A100-SXM4-80GB", "Llama 2 7B", "bf16", 4096, "=37*100", "=1/2"],
]


@pytest.fixture
def workbook(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    book = openpyxl.Workbook()
    book.active.append(["A title"])
    for place, row in enumerate(ROWS, 3):
        for column, value in enumerate(row, 2):
            book.active.cell(place, column, value)
    book.save("t.xlsx")
    return Path("t.xlsx")


def with_part(source: Path, name: str, content: bytes) -> None:
    """Replace a part of a workbook, or add it."""
    with zipfile.ZipFile(source) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()} | {name: content}
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, data in parts.items():
            archive.writestr(part, data)
    source.write_bytes(result.getvalue())


def test_rows_of_a_sheet_are_results_and_formulas_have_their_saved_values(workbook, ran):
    rows = json.loads(ran(0, "import", "t.xlsx", "--out", "out", "--json").out)[0]["rows"]
    assert [row["verdict"] for row in rows] == ["agrees", "not checked"]  # openpyxl saves no values of formulas
    assert json.loads(Path("out/t/published.json").read_text())["rows"][0]["line"] == 4
    assert call(["validate", "out"]) == 0


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("bomb.bin", b"0" * 2**26, "more than 4 MiB unpacked"),
        ("xl/workbook.xml", b'<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "found a DOCTYPE"),
        ("xl/workbook.xml", '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'.encode("utf-16"), "found a DOCTYPE"),
        ("xl/workbook.xml", b"<x>", "expected a workbook, found "),
        ("xl/worksheets/sheet1.xml", b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
         b'<sheetData><row r="900000"><c r="A900000"><v>1</v></c></row></sheetData></worksheet>', "no table"),
    ],
)  # fmt: skip
def test_a_hostile_workbook_is_refused_in_one_line(workbook, ran, name, content, expected):
    with_part(workbook, name, content)
    message = ran(2, "import", "t.xlsx", "--out", "out").err
    assert len(message.splitlines()) == 1
    assert expected in message


def test_another_file_of_that_name_is_refused(workbook, capsys):
    workbook.write_text("| tokens/s |")
    assert call(["import", "t.xlsx", "--out", "out"]) == 2
    assert "t.xlsx: expected a workbook, found BadZipFile: File is not a zip file" in capsys.readouterr().err
