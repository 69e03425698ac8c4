"""What an importer states of rows that leave it out, and what is read without a statement."""

import json
from pathlib import Path

import pytest
from llmperf.validation.check import findings
from published_tables import read

SILENT = """# Results

| Seq len | tokens/s/GPU | MFU |
|---|---|---|
| 4096 | 3,700 | 49.8% |
"""
"""Neither vendor nor device, model or precision: 3700 x 6 x 7e9 / 312e12 is 49.8 %."""
STATED = ("--device", "A100-SXM4-80GB", "--precision", "bf16", "--model", "llama2_7b", "--devices", "2x8")


def test_what_a_document_leaves_out_can_be_stated(imported, ran):
    code, (row,), err = imported(SILENT, *STATED)
    assert (code, row["verdict"], row["vendor"], row["model"]) == (0, "agrees", "nvidia", "llama2_7b")
    assert "no row leaves it out" not in err
    said = "--device A100-SXM4-80GB --devices 2x8 --precision bf16 --model llama2_7b"
    assert f"stated by the importer, by {said}: device, devices, model, precision" in row["why"]
    kept = json.loads(Path("out/t/published.json").read_text())
    assert kept["own"]["stated"]["by"] == f"the importer, by {said}"
    assert kept["rows"][0]["stated"] == ["device", "devices", "model", "precision"]
    assert kept["rows"][0]["precision_text"] is None  # which stays what the document says
    assert "由导入者说明" in ran(0, "validate", "out", "--lang", "zh").err


def test_a_statement_that_was_added_afterwards_is_found(imported, ran):
    imported(SILENT, *STATED)
    path = Path("out/t/published.json")
    document = json.loads(path.read_text())
    document["rows"][0]["precision"] = "fp32"
    path.write_text(json.dumps(document))
    assert "LP622" in ran(1, "validate", path).out


def test_what_a_row_says_is_not_replaced(imported):
    text = SILENT.replace("Seq len |", "Seq len | Model | precision | GPU |").replace("|---|", "|---|---|---|---|", 1)
    text = text.replace("| 4096 |", "| 4096 | Llama 2 13B | fp16 | 8x H100 SXM |")
    code, (row,), err = imported(text, *STATED)
    assert (code, row["model"], row["verdict"]) == (0, "llama2_13b", "wrong")
    assert [line for line in err.splitlines() if line.startswith("--")] == [
        f"--{name}: no row leaves it out" for name in ("device", "devices", "model", "precision")
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--vendor", "nvida"), "--vendor: unknown vendor 'nvida'; did you mean 'nvidia'?"),
        (("--device", "A1000"), "--device: unknown device 'A1000'; did you mean"),
        (("--vendor", "rocm", "--device", "A100-SXM4-80GB"), "--device: unknown device of rocm 'A100-SXM4-80GB'"),
        (("--precision", "bf61"), "--precision: unknown precision 'bf61'; did you mean 'bf16'?"),
        (("--devices", "2x"), "--devices: expected devices in all or nodes x devices, such as 8 or 2x8, found '2x'"),
        (("--model", "llama2_7c"), "--model: unknown model 'llama2_7c'; did you mean 'llama2_7b'?"),
        (("--model", "llama2_7b", "--model", "llama1_7b"), "--model: expected one name of a model beside files"),
        (("--vendor", "rocm"), "t.md: expected rows of rocm (--vendor), found devices of nvidia"),
    ],
)
def test_a_statement_that_cannot_be_is_refused(imported, options, expected):
    code, _, err = imported(SILENT.replace("# Results", "# NVIDIA results"), *options)
    assert code == 2
    assert expected in err
    assert len(err.splitlines()) == 1


def test_inference_is_refused_in_one_line(imported):
    text = "# llama.cpp\n\n| model | backend | test | t/s |\n|---|---|---|---|\n"
    text += "".join(f"| llama 7B | CUDA | {test} | 2400.10 |\n" for test in ("pp512", "tg128"))
    code, _, err = imported(text)
    assert code == 2
    assert err.splitlines() == [err.strip()]
    assert "found none among its tables (line 3: inference, not training)" in err


def test_a_foreign_device_is_one_finding():
    rows = "\n".join(f"| A100 (1x8) | Llama 2 7B | {number} | config_H800x1x8 |" for number in range(3000, 3013))
    text = f"""# NVIDIA results
## Hardware environment
- Accelerator: NVIDIA A100-SXM4-80GB
## H800 performance
| configuration | model | token/p/s | config |
|---|---|---|---|
{rows}
"""
    published = read(text)
    (found,) = [item for item in findings("published", published) if item.code == "LP611"]
    assert "found H800" in found.message
    assert "more of this kind" in found.message
