"""What an importer states of rows that leave it out, and what is read without a statement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from llmperf import library
from llmperf.cli.main import call
from llmperf.validation.check import findings
from llmperf_published.reading.document import import_document
from llmperf_published.reading.library_match import Known
from llmperf_published.rules.verdicts import judged
from llmperf_published.types.document import Published

KNOWN = Known.of(library())
SILENT = """# Results

| Seq len | tokens/s/GPU | MFU |
|---|---|---|
| 4096 | 3,700 | 49.8% |
"""
"""Neither vendor nor device, model or precision: 3700 x 6 x 7e9 / 312e12 is 49.8 %."""
STATED = ("--device", "A100-SXM4-80GB", "--precision", "bf16", "--model", "llama2_7b", "--devices", "2x8")


def read(header: str, *rows: str, above: str = "# Results") -> Published:
    lines = [header, "|".join(["---"] * (header.count("|") + 1)), *rows]
    return import_document("\n".join([above, "", *(f"| {line} |" for line in lines)]).encode(), "t.md", KNOWN)


@pytest.fixture
def imported(tmp_path, capsys):
    """Import a text with options; the exit code, the rows and standard error."""

    def run(text: str, *options: str) -> tuple[int, list[dict[str, object]], str]:
        (tmp_path / "t.md").write_text(text)
        code = call(["import", str(tmp_path / "t.md"), "--out", str(tmp_path / "out"), "--force", "--json", *options])
        out, err = capsys.readouterr()
        return code, json.loads(out)[0]["rows"] if out else [], err

    return run


def test_what_a_document_leaves_out_can_be_stated(imported, tmp_path, capsys):
    code, (row,), err = imported(SILENT, *STATED)
    assert (code, row["verdict"], row["vendor"], row["model"]) == (0, "agrees", "nvidia", "llama2_7b")
    assert "no row leaves it out" not in err
    said = "--device A100-SXM4-80GB --devices 2x8 --precision bf16 --model llama2_7b"
    assert f"stated by the importer, by {said}: device, devices, model, precision" in row["why"]
    kept = json.loads((tmp_path / "out" / "t" / "published.json").read_text())
    assert kept["own"]["stated"]["by"] == f"the importer, by {said}"
    assert kept["rows"][0]["stated"] == ["device", "devices", "model", "precision"]
    assert kept["rows"][0]["precision_text"] is None  # which stays what the document says
    assert call(["validate", str(tmp_path / "out"), "--lang", "zh"]) == 0
    assert "由导入者说明" in capsys.readouterr().err


def test_a_statement_that_was_added_afterwards_is_found(imported, tmp_path, capsys):
    imported(SILENT, *STATED)
    path = tmp_path / "out" / "t" / "published.json"
    document = json.loads(path.read_text())
    document["rows"][0]["precision"] = "fp32"
    path.write_text(json.dumps(document))
    assert call(["validate", str(path)]) == 1
    assert "LP622" in capsys.readouterr().out


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


@pytest.mark.parametrize(
    ("cell", "vendor"),
    [("8x A100-SXM4-80GB", "nvidia"), ("4x NVIDIA H200 (141 GB) per node", "nvidia"), ("8x MI300X", "rocm"),
     ("8x Z9000", None), ("8 GPUs", None)],
)  # fmt: skip
def test_a_device_that_one_vendor_publishes_settles_the_vendor(cell, vendor):
    assert read("Hardware | Model | tokens/s/GPU", f"{cell} | Llama 2 7B | 3700").vendor == vendor


def test_devices_of_several_vendors_settle_none():
    rows = ("8x A100-SXM4-80GB | Llama 2 7B | 3700", "8x R300 | Llama 2 7B | 700")
    assert read("Hardware | Model | tokens/s/GPU", *rows).vendor is None


@pytest.mark.parametrize(
    ("text", "model"), [("Mixtral 8*7B", "mixtral_8x7b"), ("Mixtral-8 x 7B", "mixtral_8x7b"),
                        ("llama3_70b", "llama3_70b"), ("Llama-3 70B", "llama3_70b")],
)  # fmt: skip
def test_names_of_models(text, model):
    assert read("Hardware | Model | tokens/s/GPU", f"8x A100 | {text} | 3700").rows[0].model == model


@pytest.mark.parametrize(
    ("cell", "value"),
    [("29 911", 29911), ("1\N{NO-BREAK SPACE}234\N{NO-BREAK SPACE}567", 1234567), ("2 868.5 tokens/s", 2868.5),
     ("29 91", None), ("12 345 6", None)],
)  # fmt: skip
def test_spaces_separate_thousands(cell, value):
    metrics = read("Hardware | Model | total tokens/s", f"8x A100 | Llama 2 7B | {cell}").rows[0].metrics
    found = metrics.tokens_per_second
    assert (found.value if found else None) == value
    assert found is None or found.text == cell.replace("\N{NO-BREAK SPACE}", found.text[1] if value > 1e6 else " ")


@pytest.mark.parametrize(("cell", "devices"), [("2x4", 8), ("2x4 H100-SXM5-80GB", 8), ("8x H100", 8), ("8", 8)])
def test_a_column_of_devices_may_have_a_product_or_their_name(cell, devices):
    published = read("Model | GPUs | precision | tokens/s", f"Llama 2 7B | {cell} | bf16 | 29 911")
    assert published.rows[0].hardware.world_size == devices
    assert not [item for item in published.unread if "device_count" in item.reason]


def test_columns_of_two_precisions_are_two_results():
    header = "GPUs | Model | Throughput - TF32 (tokens/s/GPU) | Throughput - mixed precision (tokens/s/GPU)"
    published = read(header, "8x A100-SXM4-80GB | Llama 2 7B | 1 800 | 3 600")
    found = [(row.precision_text, row.metrics.tokens_per_second_per_device.value) for row in published.rows]
    assert found == [("tf32", 1800), ("mixed precision", 3600)]
    assert [item.code for item in findings("published", published) if item.severity == "error"] == []


def test_inference_is_refused_in_one_line(imported):
    text = "# llama.cpp\n\n| model | backend | test | t/s |\n|---|---|---|---|\n"
    text += "".join(f"| llama 7B | CUDA | {test} | 2400.10 |\n" for test in ("pp512", "tg128"))
    code, _, err = imported(text)
    assert code == 2
    assert err.splitlines() == [err.strip()]
    assert "found none among its tables (line 3: inference, not training)" in err


@pytest.mark.parametrize(
    ("model", "cell", "outcome"),
    [("llava1.5_7b", "A100 (1x8) (pretrain)", "not checked"), ("llava1.5_7b", "A100 (1x8) (finetune)", "wrong"),
     ("Llama 2 7B", "A100 (1x8), frozen embeddings", "not checked"), ("Llama 2 7B", "A100 (1x8) (pretrain)", "wrong"),
     ("Llama 2 7B", "A100 (1x8) | vision tower frozen", "not checked"), ("Llama 2 7B", "A100 (1x8) | all", "wrong")],
)  # fmt: skip
def test_frozen_parts_are_not_checked(model, cell, outcome):
    header = f"configuration {'| trained ' * cell.count('|')}| Model | precision | tokens/s/GPU | MFU"
    published = read(header, f"{cell} | {model} | bf16 | 6000 | 22.3%", above="# NVIDIA results")
    (verdict,) = judged(published)[1]
    assert verdict.outcome == outcome
    if outcome == "not checked":
        assert verdict.why == ("part of the model is frozen, so that its FLOPs per token are not known",)


def test_a_foreign_device_is_one_finding(tmp_path):
    rows = "\n".join(f"| A100 (1x8) | Llama 2 7B | {number} | config_H800x1x8 |" for number in range(3000, 3013))
    text = f"""# NVIDIA results
## Hardware environment
- Accelerator: NVIDIA A100-SXM4-80GB
## H800 performance
| configuration | model | token/p/s | config |
|---|---|---|---|
{rows}
"""
    published = import_document(text.encode(), "t.md", KNOWN)
    (found,) = [item for item in findings("published", published) if item.code == "LP611"]
    assert "found H800" in found.message
    assert "more of this kind" in found.message
    assert not Path(tmp_path, "out").exists()
