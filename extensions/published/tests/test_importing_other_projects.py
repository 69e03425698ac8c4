"""What other projects' tables have: their words, columns of degrees, headers of two rows, rows that are too short."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmperf import library
from llmperf.cli.main import call
from llmperf.validation.check import findings
from llmperf_published.reading.document import import_document
from llmperf_published.reading.library_match import Known
from llmperf_published.rules.verdicts import judged
from llmperf_published.types.document import Published, PublishedRow

KNOWN = Known.of(library())


def read(text: str) -> Published:
    return import_document(text.encode(), "t.md", KNOWN)


def table(header: str, *rows: str, above: str = "# Results") -> Published:
    lines = [header, "|".join(["---"] * (header.count("|") + 1)), *rows]
    return read("\n".join([above, "", *(f"| {line} |" for line in lines)]))


def layout_errors(published: Published) -> list[str]:
    return [item.message for item in findings("published", published) if item.code == "LP111"]


def only(published: Published) -> PublishedRow:
    (row,) = published.rows
    return row


def reasons(published: Published) -> str:
    return "\n".join(f"{unread.reason}: {unread.text}" for unread in published.unread)


def test_a_system_with_the_vendors_product_name_is_the_device():
    published = table("System | #-GPUs | Tokens / sec / GPU", "DGX-GB300 | 256 | 6304")
    row = only(published)
    assert (row.hardware.device, row.hardware.devices, published.vendor) == ("GB300", 256, "nvidia")
    assert row.metrics.tokens_per_second_per_device.value == 6304


def test_a_system_that_is_software_is_no_device():
    published = table("System | GPUs | tok/s/GPU", "Megatron-LM 3 | 8 | 6304")
    assert only(published).hardware.device is None
    assert "expected a machine such as DGX-H100 or (1x8): Megatron-LM 3" in reasons(published)


def test_degrees_have_columns_of_their_own():
    row = only(table("GPUs | TP | PP | CP | VP | EP | FSDP | TGS", "64 | 2 | 4 | 2 | n/a | 8 | 0 | 100"))
    assert (row.parallelism.tensor_parallel, row.parallelism.pipeline_parallel) == (2, 4)
    assert row.parallelism.other == {"CP": 2, "EP": 8}
    assert row.parallelism.sharding_degree is None


def test_context_parallel_divides_data_parallel():
    row = only(table("configuration | TP | PP | CP | TGS", "A100 (2x8) | 2 | 1 | 4 | 100"))
    assert (row.batch.data_parallel, row.batch.origins["data_parallel"]) == (2, "nodes x devices / (TP x PP x CP)")


@pytest.mark.parametrize(
    ("text", "degree", "context"),
    [("FSDP 8, CP 1", 8, 1), ("FSDP=4", 4, None), ("FSDP 2, CP 4", 2, 4), ("FSDP2", None, None), ("FSDP 2", None, None),
     ("TP=4+FSDP=2", 2, None), ("fsdp: 16", 16, None), ("FSDP", None, None), ("HSDP 2x4", None, None)],
)  # fmt: skip
def test_a_version_of_fsdp_is_no_degree(text, degree, context):
    published = table("Parallelism | TPS/GPU", f"{text} | 3890")
    row = only(published)
    assert (row.parallelism.sharding_degree, row.parallelism.other.get("CP")) == (degree, context)
    assert (text.split(",")[0] in reasons(published)) == (degree is None)


def test_settings_beside_a_throughput_make_results():
    header = "TP | GPU Num | Seq Len | Micro Bsz | Micro Num | Activation Ckpt | TGS | TFLOPS"
    row = only(table(header, "1 | 8 | 2048 | 8 | 1 | TRUE | 3314 | 193"))
    batch = row.batch
    assert (batch.micro_batch, batch.gradient_accumulation, batch.seq_len, row.hardware.devices) == (8, 1, 2048, 8)
    assert row.metrics.tokens_per_second_per_device.value == 3314
    assert row.metrics.other["TFLOPS"].value == 193


@pytest.mark.parametrize("cell", ["4M", "0.125M"])
def test_a_global_batch_that_may_count_tokens_is_not_read(cell):
    published = table("TP | Global Bsz | TGS", f"1 | {cell} | 3314")
    assert only(published).claims == ()
    assert only(published).batch.global_batch is None
    assert f"expected a whole number above 0 for global_batch: {cell}" in reasons(published)


def test_lengths_below_a_header_in_thousands():
    assert only(table("SeqLen (K) | TGS", "8 | 3314")).batch.seq_len == 8192
    assert only(table("SeqLen (K) | TGS", "8k | 3314")).batch.seq_len == 8192
    assert only(table("SeqLen | TGS", "8 | 3314")).batch.seq_len == 8


@pytest.mark.parametrize(("heading", "text", "model"), [
    ("### Model: LLaMA-2 7B", "LLaMA-2 7B", "llama2_7b"), ("### Llama2-7B", "Llama2-7B", "llama2_7b"),
    ("### 32B model", None, None), ("### Model: Vendor's own", "Vendor's own", None), ("### Models", None, None),
])  # fmt: skip
def test_the_heading_above_a_table_names_its_model(heading, text, model):
    row = only(table("GPUs | TGS", "8 | 3314", above=f"# Results\n\n{heading}"))
    assert (row.model_text, row.model) == (text, model)


def test_a_figure_with_a_footnote_of_markdown():
    assert only(table("GPUs | TGS | MFU", "8 | 661[^a-note] | 40%[^1]")).metrics.mfu.value == 0.4


def test_a_share_whose_header_is_joined_to_its_unit():
    assert only(table("GPUs | TGS | MFU%", "8 | 661 | 34.5%")).metrics.mfu.value == 0.345
    assert only(table("GPUs | TGS | MFU%", "8 | 661 | 34.5")).metrics.mfu.value == 0.345


def test_a_throughput_of_an_unknown_number_of_devices_is_not_called_withheld():
    (verdict,) = judged(table("model | tokens/s | MFU", "llama2_7b | 3000 | 40%"))[1]
    assert verdict.why[0] == "the number of devices is not known"


def test_two_figures_in_a_cell_are_refused():
    published = table("GPUs | TGS", "8 | 37556 (36108)")
    assert only(published).metrics.tokens_per_second_per_device is None
    assert "37556 (36108)" in reasons(published)


def test_a_header_of_two_rows_is_one():
    published = read(
        "<table><thead><tr><th rowspan=2>GPUs</th><th>Without CP</th><th colspan='2'>With CP</th></tr>\n"
        "<tr><th>tok/s/GPU</th><th>TP</th><th>tok/s/GPU</th></tr></thead>\n"
        "<tbody><tr><td>8</td><td>100</td><td>2</td><td>120</td></tr></tbody></table>"
    )
    headers = [column.header for column in published.tables[0].columns]
    assert headers == ["GPUs", "Without CP tok/s/GPU", "With CP TP", "With CP tok/s/GPU"]
    assert published.rows == ()
    assert "its cells are kept: GPUs | Without CP tok/s/GPU" in reasons(published)


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


@pytest.mark.parametrize("cell", ["+2.5x", "2.5x", "1.2 times", "2.5 倍"])
def test_a_ratio_is_no_throughput(cell):
    published = table("configuration | tokens/s/GPU", f"with packing | {cell}")
    assert only(published).metrics.tokens_per_second_per_device is None
    assert f"found {cell.lstrip('+0123456789. ')}" in reasons(published)


def test_a_layout_below_config_and_a_framework_in_a_column():
    published = table("Framework | Config | tokens/s/GPU", "Megatron-LM | TP=8, PP=4, DP=2 | ~3,800")
    layout = only(published).parallelism
    assert (layout.tensor_parallel, layout.pipeline_parallel, layout.data_parallel) == (8, 4, 2)
    assert "expected the framework above the table, not in a column: Megatron-LM" in reasons(published)


def test_a_layout_among_other_words_below_config_is_listed():
    published = table("config | tok/s/GPU | MFU%", "16-node TP8 PP4 +offload | 96 | 34.5%")
    assert only(published).parallelism.tensor_parallel is None
    assert "expected a layout such as TP4PP1DP2 or settings such as sharding_degree=8: 16-node" in reasons(published)


def test_degrees_joined_to_a_stage():
    header = "模型 | 分布式策略 | 速度(`tokens/card/sec`) | 显存占用 (MB)"
    layout = only(table(header, "a | tp2sd4_stage2 | 1980 | 64323")).parallelism
    assert (layout.tensor_parallel, layout.sharding_degree, layout.sharding_stage) == (2, 4, 2)


DEGREES = st.sampled_from(["TP", "PP", "CP", "EP", "VP", "FSDP", "DP"])


@pytest.mark.slow
@given(st.dictionaries(DEGREES, st.integers(1, 64), min_size=1), st.sampled_from(["=", " ", ": "]))
def test_degrees_read_from_a_cell_are_those_from_columns(degrees, sign):
    cell = ", ".join(f"{name}{sign}{value}" for name, value in degrees.items())
    if cell in ("FSDP 1", "FSDP 2"):
        return
    from_cell = only(table("Parallelism | TGS", f"{cell} | 100")).parallelism
    header, row = " | ".join(degrees), " | ".join(map(str, degrees.values()))
    from_columns = only(table(f"{header} | TGS", f"{row} | 100")).parallelism
    assert from_cell == from_columns


@given(st.lists(st.text("<>/theadrTH |&;=\"'0129\n", max_size=12), max_size=12))
def test_no_header_of_html_is_too_odd(parts):
    read("<table><thead>" + "<tr><th colspan=3>".join(parts) + "</table>")


@pytest.mark.parametrize(
    ("text", "device", "nodes", "each", "devices"),
    [("8x A100", "A100", None, None, 8), ("8 NVIDIA H100 GPUs", "H100", None, None, 8),
     ("H100-80GB * 8", "H100", None, None, 8), ("A800 80G x8卡", "A800", None, None, 8),
     ("8*910B", "910B", None, None, 8), ("2x8 H100", "H100", 2, 8, None), ("2 x 8 x H100", "H100", 2, 8, None),
     ("64 H800", "H800", None, None, 64), ("A100-SXM4-80GB", "A100 SXM4", None, None, None)],
)  # fmt: skip
def test_devices_are_counted_beside_their_name(text, device, nodes, each, devices):
    where = only(table("GPU | tokens/s/GPU", f"{text} | 100")).hardware
    assert (where.device, where.nodes, where.devices_per_node, where.devices) == (device, nodes, each, devices)


def test_a_device_that_is_a_number_of_four_digits_is_no_count():
    published = table("GPU | tokens/s/GPU", "1x 4090 | 100")
    where = only(published).hardware
    assert (where.device, where.nodes, where.devices_per_node) == (None, None, None)
    assert "which it was stays unknown: 1x 4090" in reasons(published)


def test_devices_beside_their_name_may_be_those_of_one_node_or_of_all():
    published = table("GPU | Nodes | tokens/s/GPU", "8x A100 | 2 | 100")
    where = only(published).hardware
    assert (where.device, where.nodes, where.devices_per_node, where.devices) == ("A100", 2, None, None)
    assert "expected nodes x devices such as (1x8): 8x A100" in reasons(published)


@pytest.mark.parametrize("text", ["H100/H200 SXM", "NVIDIA A100 or A800", "V100/A100 (1x8)"])
def test_a_cell_that_names_two_devices_names_none(text):
    published = table("GPU | tokens/s/GPU", f"{text} | 100")
    assert only(published).hardware.device is None
    assert f"which it was stays unknown: {text}" in reasons(published)


@pytest.mark.parametrize(
    ("text", "tensor", "pipeline", "data", "stage"),
    [("zero1(dp2)+tp2+pp4", 2, 4, 2, 1), ("ZeRO-3, TP8", 8, None, None, 3), ("zero2(dp8)", None, None, 8, 2),
     ("zero3", None, None, None, 3)],
)  # fmt: skip
def test_degrees_beside_a_stage_of_zero(text, tensor, pipeline, data, stage):
    layout = only(table("Parallelism | TGS", f"{text} | 100")).parallelism
    found = (layout.tensor_parallel, layout.pipeline_parallel, layout.data_parallel, layout.sharding_stage)
    assert found == (tensor, pipeline, data, stage)


HEADER = "GPU | Model | Tokens/s"
INFERENCE = "expected a table of training results, found inference"
NO_RESULTS = "expected a table of general metrics or of results"
TRAINING = "# Training results\n\n| GPU | Model | Tokens/s |\n|---|---|---|\n| A100 | llama2_7b | 3000 |\n\n"


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


def test_a_column_of_inference_is_no_throughput():
    published = table("GPU | TGS | Inference (tokens/s)", "A100 | 3000 | 42.5")
    assert only(published).metrics.tokens_per_second_per_device.value == 3000
    assert only(published).metrics.other["Inference (tokens/s)"].value == 42.5


def test_accumulated_batches_are_no_accuracies():
    row = only(table("GPUs | Accumulated batch size | TGS", "8 | 8192 | 100"))
    assert not row.metrics.evaluation
    assert row.metrics.other["Accumulated batch size"].value == 8192


def test_a_column_of_words_is_listed_once():
    published = table("GPU | Kernels | TGS", "A100 | TE | 100", "A100 | FA3 | 110", "A100 | - | 120")
    assert reasons(published).count("Kernels") == 1
    assert "expected a column that is known; its cells are kept: Kernels" in reasons(published)


def test_a_layout_below_configuration_is_no_device():
    header, cells = "Configuration | GPUs | TGS", "tp2, ep8, deepep, pp32, vpp3, mbs=4, recompute=full | 256 | 1500"
    row = only(table(header, cells))
    layout = row.parallelism
    assert row.hardware.device is None
    assert (layout.tensor_parallel, layout.pipeline_parallel, layout.other) == (2, 32, {"EP": 8, "VP": 3})
    assert row.batch.micro_batch == 4
    assert "in this cell: deepep" in reasons(table(header, cells))


@pytest.mark.parametrize(
    "text", ["Config 2", "LLaMA2 7B", "GPT-3", "Qwen2.5-72B", "zero3", "bfloat16, eager", "Baseline 1"]
)
def test_models_and_numbered_configurations_are_no_devices(text):
    assert only(table("Configuration | TGS", f"{text} | 100")).hardware.device is None


def test_tags_around_a_header_are_no_part_of_it():
    row = only(table('<div style="width:9px;">Model ID</div> | Number of chips | TGS', "llama2_7b | 64 | 100"))
    assert (row.model, row.hardware.devices) == ("llama2_7b", 64)


def test_a_column_of_accumulation_is_no_accuracy():
    row = only(table("GPUs | Grad Acc | tokens/s/GPU", "8 | 16 | 3000"))
    assert (row.batch.gradient_accumulation, row.metrics.evaluation) == (16, {})
    assert only(table("GPUs | Other grad acc. | tokens/s/GPU", "8 | 16 | 3000")).metrics.evaluation == {}


def test_the_name_of_a_run_is_no_number():
    published = table("GPUs | run | size | tokens/s/GPU", "8 | 89ibnowv | 52B | 3000")
    assert {name: value.value for name, value in only(published).metrics.other.items()} == {"size": 52}
    assert "its cells are kept: run" in reasons(published)


def test_a_machine_that_names_devices_with_their_number_is_the_device():
    where = only(table("Machine | seq len | tokens/s/GPU", "4xA10G | 512 | 3000")).hardware
    assert (where.device, where.devices) == ("A10G", 4)
    assert only(table("Machine | seq len | tokens/s/GPU", "ABCI-3 | 512 | 3000")).hardware.device is None


def test_a_degree_without_a_column_is_not_held_against_the_row():
    header = "configuration | {} | DP | PP | tokens/s/GPU"
    published = table(header.replace("{} | ", ""), "A100 (8x8) | 1 | 16 | 3000")
    assert layout_errors(published) == []
    published = table(header.format("TP"), "A100 (8x8) | 1 | 1 | 16 | 3000")
    assert len(layout_errors(published)) == 1
    published = table(header.replace("{} | ", ""), "A100 (8x8) | 3 | 16 | 3000")
    assert len(layout_errors(published)) == 1


@pytest.mark.parametrize("text", ["P1 baseline (AC=on)", "OLMo 3 32B", "P2 (AC=off, native)"])
def test_numbered_configurations_are_no_devices_unless_they_are_counted(text):
    published = table("Configuration | tokens/s/GPU", f"{text} | 3000")
    assert only(published).hardware.device is None
    assert f"expected nodes x devices such as (1x8): {text}" in reasons(published)
    for cell, device in (
        ("Z1 (1x8)", "Z1"),
        ("NVIDIA L4 server", "L4"),
        ("TPU v3 slice", "TPU v3"),
        ("Gaudi 2 pod", "Gaudi 2"),
    ):
        assert only(table("Configuration | tokens/s/GPU", f"{cell} | 3000")).hardware.device == device


def test_a_setting_in_a_column_of_words_is_no_number():
    published = table("Method | GPUs | tokens/s/GPU", "LoRA r=16 | 8 | 3000")
    assert only(published).metrics.other == {}
    assert "its cells are kept: Method" in reasons(published)
