"""A verdict on each imported row: no error is not yet a check, and the commands say which rows were checked."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from llmperf.accounting.flops import count_flops
from llmperf.cases.library import library
from llmperf.cli.main import call
from llmperf.types import Workload
from llmperf_published.rules.verdicts import closing, judged
from published_tables import A100, read

PUBLISHED = Path(__file__).parents[1] / "src/llmperf_published/data"
A100_PEAK = "peak of confidence datasheet: NVIDIA A100 Tensor Core GPU datasheet, column A100 40GB SXM"
DOCUMENT = """
# {title}
## Hardware environment
- Accelerator: NVIDIA A100-SXM4-40GB
{extra}## General metrics
| item | value | remark |
| --- | --- | --- |
| model | {model} | |
| precision | {precision} | |
## Performance metrics
| configuration | {throughput} | {share} |
| --- | --- | --- |
| {configuration} | {speed} | {mfu} |
"""
PLAIN = {
    "title": "NVIDIA configuration and results", "model": "llama2_7b", "precision": "bf16", "throughput": "token/p/s",
    "configuration": "A100 (1x8)", "speed": "2868", "share": "MFU", "mfu": "38.6%",
    "extra": "",
}  # fmt: skip


@pytest.fixture(scope="module")
def verdict():
    def only(**changes):
        text = DOCUMENT.format(**(PLAIN | changes))
        (found,) = judged(read(text))[1]
        return found.outcome, found.why[0]

    return only


@pytest.mark.parametrize(
    ("changes", "outcome", "why"),
    [
        ({}, "agrees", "MFU by the nominal convention, of 312 TFLOP/s"),
        ({"mfu": "58.6%"}, "not checked", "the sequence length is not known"),
        ({"mfu": "18.6%"}, "wrong", "LP311"),
        ({"mfu": "38.6"}, "agrees", "MFU by the nominal convention, of 312 TFLOP/s"),
        ({"throughput": "tokens/s", "speed": "22944"}, "agrees", "MFU by the nominal convention, of 312 TFLOP/s"),
        ({"speed": "3000 samples/s"}, "not checked", "its throughput is not understood"),
        ({"speed": "/"}, "not checked", "its throughput is withheld"),
        ({"throughput": "throughput"}, "not checked", "what its throughput counts is not said"),
        ({"throughput": "mem", "speed": "32/40"}, "not checked", "no throughput is printed"),
        ({"share": "remark"}, "not checked", "no MFU is printed"),
        ({"mfu": "/"}, "not checked", "its MFU is withheld"),
        ({"mfu": "some 25%"}, "not checked", "its MFU is not understood"),
        ({"model": "mixtral_8x22B"}, "not checked",
         'model "mixtral_8x22B" is not in the library; a model of your own: `llmperf import --model FILE`'),
        ({"model": "/"}, "not checked", "no model is named; say it: `llmperf import --model NAME`"),
        ({"precision": "bf16+fp8"}, "not checked", 'no peak is known for precision "bf16+fp8"'),
        ({"configuration": "* (1x8)"}, "not checked", "its device is unknown"),
        ({"configuration": "Vendor X (1x8)"}, "not checked", "its device is unknown"),
        ({"configuration": "Z123 (1x8)"}, "not checked", 'nvidia publishes no device "Z123"'),
        ({"title": "沐曦 results", "configuration": "C500 (1x8)"}, "not checked",
         "no plugin of vendor metax is installed; peaks of your own: `llmperf import --peaks FILE`"),
    ],
)  # fmt: skip
def test_each_row_agrees_or_is_wrong_or_says_what_is_missing(verdict, changes, outcome, why):
    assert verdict(**changes) == (outcome, why)


@pytest.mark.parametrize(
    ("columns", "cells", "outcome", "why"),
    [
        ("token/p/s | TFLOPs/GPU | MFU", "2868 | 120.4 | 38.6%", "agrees", "MFU by the nominal convention, of 312"),
        ("token/p/s | TFLOPs/GPU | MFU", "2868 | 42.2 | 38.6%", "wrong", "LP311"),
        ("token/p/s | TFLOPs/GPU | MFU", "2868 | 999.9 | 38.6%", "wrong", "LP311"),
        ("token/p/s | TFLOPs/GPU", "2868 | 120.5", "agrees", "TFLOP/s by the nominal convention"),
        ("token/p/s | TFLOPS", "2868 | 963.7", "agrees", "TFLOP/s by the nominal convention"),  # of all devices
        ("token/p/s | TFLOPs/GPU", "2868 | 313", "wrong", "LP311"),
        ("token/p/s | TFLOPs/GPU", "2868 | 150", "not checked", "no MFU is printed"),
        ("TFLOPs/GPU | MFU", "42.2 | 38.6%", "wrong", "LP311"),
    ],
)
def test_printed_flops_are_checked_against_the_throughput_the_mfu_and_the_peak(columns, cells, outcome, why):
    lines = A100, f"| configuration | {columns} |", "|---" * (columns.count("|") + 2) + "|", f"| A100 (1x8) | {cells} |"
    (found,) = judged(read("\n".join(lines)))[1]
    assert (found.outcome, found.why[0][: len(why)]) == (outcome, why)


@pytest.mark.parametrize("model", ["llama2_7b", "baichuan2_7b"])
@pytest.mark.parametrize(
    ("convention", "changes"),
    [("palm", {}), ("causal", {}), ("nominal", {}), ("exact", {}), ("palm", {"precision": "fp16"})],
)
def test_a_correct_figure_of_any_convention_agrees_without_a_case(verdict, model, convention, changes):
    """The sequence length that the document prints is enough."""
    flops = count_flops(library().model(model), Workload(seq_len=4096)).of(convention).flops
    mfu = f"{100 * 3162 * flops / 312e12:.1f}%"
    said = {"model": model, "speed": "3162", "extra": "## Batch size\n- MPE, 4096 by default\n", **changes}
    outcome, why = verdict(mfu=mfu, **said)
    assert outcome == "agrees"
    assert f"the {convention} convention" in why
    assert verdict(mfu="75.5%", **said) == ("wrong", "LP311")


def test_a_figure_that_recomputation_would_give_is_not_wrong_where_nothing_is_said_of_it(verdict):
    workload = Workload(seq_len=4096, gradient_checkpointing=True)
    flops = count_flops(library().model("llama2_7b"), workload).of("hfu").flops
    said = {"speed": "3162", "extra": "## Batch size\n- MPE, 4096 by default\n"}
    outcome, why = verdict(mfu=f"{100 * 3162 * flops / 312e12:.1f}%", **said)
    assert outcome == "not checked"
    assert "recomputed" in why


def test_a_table_without_a_vendor_says_what_to_state(tmp_path, capsys):
    """With that option, the row can be checked; so can one on a device that one vendor alone publishes."""
    table = "| model | precision | configuration | token/p/s | MFU |\n| --- | --- | --- | --- | --- |\n"
    (tmp_path / "README.md").write_text(f"{table}| llama2_7b | bf16 | GPU (1x8) | 2868 | 38.6% |\n")

    def found(*options):
        assert call(["import", str(tmp_path / "README.md"), "--out", str(tmp_path), "--force", "--json", *options]) == 0
        ((row,),) = [document["rows"] for document in json.loads(capsys.readouterr().out)]
        return row["verdict"], row["why"]

    outcome, why = found()
    assert (outcome, why[0].partition(":")[0]) == (
        "not checked", "no vendor is named, and no device that one vendor publishes; say it"
    )  # fmt: skip
    assert found("--device", "A100-SXM4-40GB")[0] == "agrees"
    (tmp_path / "README.md").write_text(f"{table}| llama2_7b | bf16 | A100 (1x8) | 2868 | 38.6% |\n")
    assert found()[0] == "agrees"


def test_rows_that_agree_on_different_devices_of_a_family_were_not_checked():
    said = {"configuration": "H100 (1x8)", "extra": "", "speed": "9000"}
    peaks = [one * 1e12 for one in (989.4, 756)]
    figures = [f"{100 * 9000 * 6 * 7e9 / peak:.1f}%" for peak in peaks]

    def found(*rows):
        text = DOCUMENT.format(**PLAIN | said | {"mfu": rows[0]})
        text += "".join(f"| H100 (1x8) | 9000 | {one} |\n" for one in rows[1:])
        return judged(read(text))[1]

    for figure in figures:
        assert [one.outcome for one in found(figure, figure)] == ["agrees", "agrees"]
        assert ", if on " in found(figure)[0].why[0]
    assert [one.outcome for one in found(*figures)] == ["not checked", "not checked"]


def test_rows_beyond_the_listed_findings_are_wrong_too():
    text = DOCUMENT.format(**PLAIN) + "| A100 (1x8) | 2868 | 18.6% |\n" * 30
    findings, verdicts = judged(read(text))
    assert sum(one.code == "LP311" for one in findings) < 30
    assert [one.outcome for one in verdicts].count("wrong") == 30
    assert closing(verdicts) == "31 published rows: 1 agree, 30 wrong, 0 not checked"


CLOSING = (
    "19 published rows: 5 agree, 0 wrong, 14 not checked "
    "(12: no MFU is printed; 1: its MFU is withheld; 1: its throughput is withheld)"
)


@pytest.mark.parametrize("words", [["validate"], ["report"], ["summary"]])
def test_commands_close_with_how_many_rows_were_checked(words, ran):
    told = ran(0, *words, PUBLISHED)
    assert (told.err if words == ["validate"] else told.out).splitlines()[-1] == CLOSING


def test_validate_names_the_lines_that_were_not_checked(ran):
    path = PUBLISHED / "llama2_7b_lora_a100"
    lines = ran(0, "validate", path).err.splitlines()
    assert f"{path}/published.json: line 64: not checked: its MFU is withheld" in lines
    assert (
        f"{path}/published.json: line 65: agrees: MFU by the nominal convention, of 312 TFLOP/s; {A100_PEAK}" in lines
    )


def test_a_verdict_names_source_and_confidence_of_a_peak_without_datasheet(ran):
    (file,) = json.loads(ran(0, "validate", PUBLISHED / "baichuan2_13b_zero_h800", "--json").out)
    reasons = [row["why"][1] for row in file["rows"] if row["verdict"] == "agrees"]
    assert reasons
    assert all(reason.startswith("peak of confidence low: no datasheet at hand: ") for reason in reasons)


def test_programs_get_a_verdict_on_each_row(tmp_path, ran):
    source = tmp_path / "a" / "README.md"
    source.parent.mkdir()
    source.write_text(DOCUMENT.format(**(PLAIN | {"mfu": "18.6%"})) + "| A100 (1x8) | 2868 | / |\n")
    (document,) = json.loads(ran(0, "import", source, "--out", tmp_path / "out", "--json").out)
    expected = [(13, "wrong", ["LP311"]), (14, "not checked", ["its MFU is withheld"])]
    assert [(one["line"], one["verdict"], one["why"]) for one in document["rows"]] == expected
    (file,) = json.loads(ran(1, "validate", tmp_path / "out", "--json").out)
    assert [(one["line"], one["verdict"], one["why"]) for one in file["rows"]] == expected
    (report,) = json.loads(ran(0, "report", tmp_path / "out", "--json").out)
    assert [row["verdict"] for row in report["rows"]] == ["wrong", "not checked"]
    rows = list(csv.DictReader(io.StringIO(ran(0, "report", tmp_path / "out", "--format", "csv").out)))
    assert [(one["verdict"], one["verdict_why"]) for one in rows] == [
        ("wrong", "LP311"), ("not checked", "its MFU is withheld")
    ]  # fmt: skip
    (kind,) = json.loads(ran(0, "summary", tmp_path / "out", "--json").out)
    assert (kind["vendor"], kind["rows"], kind["wrong"], kind["not_checked"]) == ("nvidia", 2, 1, 1)
    assert kind["best_verdict"] == "not checked", "a row that is wrong is not the best one"


@pytest.mark.parametrize(
    ("layout", "expected"),
    [("/", ("", "", "")), ("TP4", ("4", "", "")), ("TP4PP1", ("4", "4", "4")), ("DP16", ("", "16", "16"))],
)
def test_csv_leaves_degrees_empty_that_the_document_does_not_print(layout, expected, tmp_path, ran):
    text = DOCUMENT.format(
        **PLAIN | {"configuration": "A100 (2x8)", "extra": "## Batch size\n- LBS, 1 by default\n- GAS, 1 by default\n"}
    )
    before, table = text.split("## Performance metrics\n")
    table = "".join(f"{line} {cell} |\n" for line, cell in zip(
        table.splitlines(), ("parallel", "---", layout), strict=True))  # fmt: skip
    source = tmp_path / "README.md"
    source.write_text(f"{before}## Performance metrics\n{table}")
    ran(0, "import", source, "--out", tmp_path / "out")
    (row,) = csv.DictReader(io.StringIO(ran(0, "report", tmp_path / "out", "--format", "csv").out))
    assert (row["tensor_parallel"], row["data_parallel"], row["global_batch"]) == expected


def test_a_summary_of_imports_in_chinese_has_chinese_headers(ran):
    headers = re.split(r" {2,}", ran(0, "summary", PUBLISHED, "--lang", "zh", "--wide").out.splitlines()[0].strip())
    assert len(headers) == 12
    assert [header for header in headers if header.isascii()] == []


def test_a_summary_of_imports_takes_no_baseline(capsys):
    assert call(["summary", str(PUBLISHED), "--baseline", "published"]) == 2
    assert "--baseline: expected runs to compare with it, found imported documents" in capsys.readouterr().err


def test_an_edited_document_is_wrong(tmp_path, saved):
    document = json.loads((PUBLISHED / "llama2_7b_megatron_deepspeed_a100" / "published.json").read_text())
    document["rows"][0]["model"] = None
    path = saved(tmp_path / "published.json", document)
    from llmperf.validation.check import validate_path

    (file,) = validate_path(path)
    assert [(one.outcome, one.why) for one in file.verdicts] == [
        ("wrong", ("LP622",)), ("agrees", ("MFU by the nominal convention, of 312 TFLOP/s", A100_PEAK))
    ]  # fmt: skip
