"""Documents whose parts explain each other: headers, headings, remarks, environments."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmperf.cli.main import call
from llmperf_published.reporting.markdown import cell, published_markdown
from llmperf_published.rules.verdicts import judged
from published_tables import A100, X1, codes, errors, markdown, read, table, unread, value

HEADER = "GPU | Model | Tokens/s"
INFERENCE = "expected a table of training results, found inference"
NO_RESULTS = "expected a table of general metrics or of results"
TRAINING = "# Training results\n\n| GPU | Model | Tokens/s |\n|---|---|---|\n| A100 | llama2_7b | 3000 |\n\n"
RESULTS = "* 性能指标\n\n| 配置 | fix_hp | token/p/s |\n|---|---|---|\n| X1单机8卡（1x8） | {} | 100 |\n"


def only(published):
    (row,) = published.rows
    return row


def reasons(published):
    return "\n".join(unread(published))


def test_a_title_above_all_columns_is_no_header():
    published = read(
        "<table><thead><tr><th colspan=2>Llama</th></tr><tr><th>GPUs</th><th>tok/s/GPU</th></tr></thead>"
        "<tr><td>8</td><td>100</td></tr></table>"
    )
    assert only(published).metrics.tokens_per_second_per_device.value == 100
    assert [note.text for note in published.notes] == ["Llama"]


def test_a_row_that_lacks_a_cell_gives_no_figures(tmp_path, capsys):
    header = "configuration | nodes | GPUs per node | tokens/p/s | MFU | remark"
    published = table(header, "A100 (2x8) | 4 | 3000 | 40% | -", above="# NVIDIA results")
    row = only(published)
    assert row.hardware.nodes == 2
    assert row.metrics.tokens_per_second_per_device is None
    assert "expected 6 cells, found 5; only the first is read" in reasons(published)
    source = tmp_path / "t.md"
    source.write_text(
        "# NVIDIA results\n\n" + f"| {header} |\n|---|---|---|---|---|---|\n| A100 (2x8) | 4 | 3000 | 40% |\n"
    )
    assert call(["validate", str(source), "--json"]) == 0
    assert "error" not in {finding["severity"] for finding in json.loads(capsys.readouterr().out)[0]["findings"]}


@given(st.lists(st.text("<>/theadrTH |&;=\"'0129\n", max_size=12), max_size=12))
def test_no_header_of_html_is_too_odd(parts):
    read("<table><thead>" + "<tr><th colspan=3>".join(parts) + "</table>")


@pytest.mark.parametrize(
    ("header", "cells", "heading", "refusal"),
    [
        *((HEADER, "A100 | llama2_7b | 42.5", heading, INFERENCE) for heading in (
            "## Inference performance", "## 推理性能", "## Serving\n\n### A100, one card", "## Chunked prefill",
            "## Rendimiento de inferencia")),
        ("Framework | GPU | Throughput (tokens/s)", "vLLM | A40 | 7094", "## Performance", INFERENCE),
        ("Model | TTFT (ms) | Tokens/s", "x | 9 | 65", "## Performance", INFERENCE),
        ("GPU | Settings | tokens/s", "A100 | 4-bit inference | 71.8", "## Performance", INFERENCE),
        ("GPU | Concurrency | tokens/s", "A100 | 16 | 71.8", "## Performance", INFERENCE),
        ("Model | MMLU | Accuracy", "llama2_7b | 44.5 | 60 %", "## Performance", NO_RESULTS),
        ("GPU | Memory (GB) | Bandwidth", "H200 | 141 | 4.8", "## Performance", NO_RESULTS),
    ],
)  # fmt: skip
def test_inference_accuracies_and_datasheets_are_not_read_as_results_of_training(header, cells, heading, refusal):
    published = table(header, cells, above=f"{TRAINING}{heading}")
    assert [row.line for row in published.rows] == [5]
    assert f"{refusal}; its cells are kept: {header}" in reasons(published)


@pytest.mark.parametrize(
    "heading", ["## Training and inference", "## Inference\n\n## Training speed", "## Fine-tuning"]
)
def test_a_heading_that_names_training_too_refuses_nothing(heading):
    published = table(HEADER, "A100 | llama2_7b | 42.5", above=f"{TRAINING}{heading}")
    assert len(published.rows) == 2


def test_a_column_of_words_is_listed_once():
    published = table("GPU | Kernels | TGS", "A100 | TE | 100", "A100 | FA3 | 110", "A100 | - | 120")
    assert reasons(published).count("Kernels") == 1
    assert "expected a column that is known; its cells are kept: Kernels" in reasons(published)


def test_a_column_of_numbers_that_is_not_known_is_listed_once():
    document = table("GPUs | MFU | Yield (tok)", "8 | 40% | 3000")
    assert [item.text for item in document.unread if "a column that is known" in item.reason] == ["Yield (tok)"]
    (verdict,) = judged(document)[1]
    assert verdict.why[0].startswith("no column is known to be a throughput; not understood: ")
    assert "Yield (tok)" in verdict.why[0]


def test_devices_of_several_vendors_settle_none():
    rows = ("8x A100-SXM4-80GB | Llama 2 7B | 3700", "8x R300 | Llama 2 7B | 700")
    assert table("Hardware | Model | tokens/s/GPU", *rows).vendor is None


@pytest.mark.parametrize("raw", ["<br onclick=x>", "<b>", "<br", "< br>", "<brx>", "<br><script>"])
def test_other_tags_do_not(raw):
    assert "<" not in cell(raw)


@pytest.mark.parametrize("raw", ["a<br>b<br/>c<BR />d", "p3>p2>p1", "Task 1 & 2", "not this!", "&lt;", "~", "\\*"])
def test_what_does_no_harm_in_a_cell_comes_back_as_it_was(raw):
    assert cell(raw) == raw
    assert f"| {raw} |" in published_markdown(read(X1 + RESULTS.format(raw)), "zh")


def test_remarks_among_labels_and_packages_without_one():
    text = "- ##### 依赖环境\n  - sentencepiece==0.2.0\n  - 训练编译器版本：y\n  - 注：另一个版本会不同\n"
    published = read(X1 + text + "  - 值得注意的是，此版本尚未实现重叠\n" + RESULTS.format("/"))
    assert published.unread == ()
    assert published.entry("dependencies", "software").text == "sentencepiece==0.2.0"
    assert [item.text for item in published.notes] == ["注：另一个版本会不同", "值得注意的是，此版本尚未实现重叠"]


@pytest.mark.parametrize("before", ["在本case中，", "In this case, ", ""])
def test_a_label_may_have_words_before_it(before):
    line = f"* 输入批尺寸\n  1. {before}data_parallel_size=world_size/TPsize/PPsize。\n"
    published = read(X1 + line + RESULTS.format("/"))
    entry = published.entry("data_parallel", "batch")
    assert (entry.label, entry.text) == (f"{before}data_parallel_size", "world_size/TPsize/PPsize。")
    assert published.unread == ()


def test_results_of_benchmarks_are_evaluations():
    general = "* 通用指标\n\n| 指标名称 | 指标值 | 特殊说明 |\n|---|---|---|\n| MMMU（val）结果 | acc(推理/验证) | |\n"
    published = read(X1 + general + RESULTS.format("/"))
    assert published.entry("evaluation", "general").label == "MMMU（val）结果"
    assert published.unread == ()


def test_what_only_the_name_of_a_configuration_says_is_not_held_against_the_row():
    header, name = "configuration | config | parallel | token/p/s", "config_TP2PP1SH1SP4A10040Gx1x8"
    layout = 'sharding="stage1", sharding_degree=4'
    published = table(header, f"A100 (1x8) | {name} | {layout} | 3000", above=A100)
    assert value(published, "parallelism.tensor_parallel") == 2
    assert "LP114" not in codes(published)
    other = table(header, f"A100 (1x8) | {name} | {layout}, tensor_parallel_degree=4 | 3000", above=A100)
    assert "LP114: expected TP 4 as in the row, found 2" in "\n".join(errors(other))


def test_commands_show_what_stays_unknown_and_the_share_of_hardware_flops(tmp_path, ran, capsys):
    header, rows = (
        "configuration | token/p/s | MFU | HFU",
        ("A100 (1x8) | 3000 | 41.2 | 54.9", "Vendor X (1x8) | 1 | / | /"),
    )
    (tmp_path / "README.md").write_text(markdown(header, *rows, above=A100), encoding="utf-8")
    assert call(["import", str(tmp_path / "README.md"), "--out", str(tmp_path / "out")]) == 0
    assert "expected the name of a device such as A100" in capsys.readouterr().err
    assert "0.549" in ran(0, "report", tmp_path / "out", "--format", "csv").out
    assert '"hfu"' in json.dumps(json.loads(ran(0, "report", tmp_path / "out", "--json").out))
