"""Forms that published documents of other vendors and models have: made-up documents with each of them."""

from __future__ import annotations

import pytest
from llmperf.cases.library import library
from llmperf_published.reading.document import import_document
from llmperf_published.reading.library_match import Known
from llmperf_published.reporting.markdown import cell, published_markdown

HEAD = "### Vendor 配置与运行信息参考\n#### 环境配置\n- ##### 硬件环境\n  - 加速卡型号: X1\n"
COLUMNS = ("配置", "precision", "parallel", "fix_hp", "token/p/s", "lm loss value", "是否精度对齐", "mem", "MFU")
PLAIN = {
    "配置": "X1单机8卡（1x8）", "precision": "bf16", "parallel": "PP1DP8TP1", "fix_hp": "/", "token/p/s": "100",
    "lm loss value": "8.5", "是否精度对齐": "/", "mem": "30/64", "MFU": "30.25%",
}  # fmt: skip


@pytest.fixture(scope="module")
def read():
    known = Known.of(library())
    return lambda text: import_document(text.encode(), "README.md", known)


def table(*rows):
    lines = ["* 性能指标", "", "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    return "\n".join([*lines, *("| " + " | ".join((PLAIN | row)[name] for name in COLUMNS) + " |" for row in rows)])


def only_row(read, **cells):
    document = read(HEAD + table(cells))
    return document.rows[0], [item.reason for item in document.unread]


@pytest.mark.parametrize(
    ("text", "aligned", "unread"),
    [
        ("True(作为基线)", True, []), ("True（the baseline）", True, []), ("False, see below", False, []),
        ("\\*（仅供性能参考）", None, []), ("/,仅供性能参考", None, []), ("*（仅供性能参考）*", None, []),
        ("doing", None, ["expected true or false under '是否精度对齐'"]),
    ],
)  # fmt: skip
def test_alignment_with_a_remark(text, aligned, unread, read):
    row, reasons = only_row(read, 是否精度对齐=text)
    assert (row.metrics.aligned, reasons) == (aligned, unread)


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("bf16", "bf16"),
        ("bf16+fp8", None),
        ("fp8", None),
        ("fp16/bf16", None),
        ("int8", None),
        ("BF16 混合精度", "bf16"),
    ],
)
def test_a_second_dtype_beside_the_first_fixes_none(text, precision, read):
    row, _ = only_row(read, precision=text)
    assert (row.precision, row.precision_text) == (precision, text)


@pytest.mark.parametrize(
    ("text", "device", "nodes", "each"),
    [
        ("X1004机32卡（4x8）", "X100", 4, 8), ("X100四机32卡（4x8）", "X100", 4, 8),
        ("X100-55机440卡（55x8）", "X100", 55, 8), ("X100二机16卡（2x8）", "X100", 2, 8),
        ("X14机32卡（4x8）", "X1", 4, 8), ("X4 机器 (4x8)", "X4", 4, 8), ("\\*单机8卡（1x8）", None, 1, 8),
        ("X1单机8卡（1x8）（pretrain）", "X1", 1, 8),
        ("Atlas 800T A2单机8卡（1x8）", "Atlas 800T A2", 1, 8), ("X1 2 nodes x 8 GPUs", "X1", 2, 8),
        ("X1 4 nodes × 8 GPUs", "X1", 4, 8), ("X1 8 GPUs x 2 nodes", "X1", 2, 8), ("X1 2机×8卡", "X1", 2, 8),
        ("X1 2 nodes, 8 GPUs each", "X1", 2, 8), ("X1 4 nodes, 8 GPUs per node", "X1", 4, 8),
        ("X1 2 nodes 16 gpus", "X1", 2, 8),
    ],
)  # fmt: skip
def test_machines(text, device, nodes, each, read):
    where = only_row(read, 配置=text)[0].hardware
    assert (where.device, where.nodes, where.devices_per_node) == (device, nodes, each)


def test_ranges_and_failures_are_listed_and_kept(read):
    row, reasons = only_row(read, MFU="25.4%-50.6%", mem="OOM")
    assert (row.metrics.mfu.value, row.metrics.memory) == (None, None)
    assert [end.printed for end in row.metrics.mfu.ends] == ["25.4", "50.6"]
    assert reasons == ["expected an amount of memory under 'mem'"]


def test_a_mark_behind_a_setting_is_not_part_of_it(read):
    row, reasons = only_row(read, fix_hp="gbs=1760\\*")
    assert (row.claims[0].global_batch.value, reasons) == (1760, [])


def test_degrees_in_any_order_and_experts(read):
    layout = only_row(read, parallel="PP2DP2EP4TP8")[0].parallelism
    degrees = (layout.tensor_parallel, layout.pipeline_parallel, layout.data_parallel, layout.other)
    assert degrees == (8, 2, 2, {"EP": 4})


def test_the_loss_of_a_language_model_is_a_loss(read):
    assert only_row(read)[0].metrics.loss.value == 8.5


def test_megatron_alone_is_not_megatron_deepspeed(read):
    strategy = "- ##### 并行策略\n  - 实施者：{}\n"
    for implementer, framework in (("Megatron-LM", None), ("Megatron Deepspeed", "megatron_deepspeed")):
        document = read(HEAD + strategy.format(implementer) + table({}))
        assert document.rows[0].framework == framework


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("LoRA", True), ("LoRA: rank 8", True), ("peft LoRA, r=8", True), ("使用LoRA", True), ("优化方案: LoRA", True),
        ("LoRA: not used", False), ("lora: -", False), ("LoRA: 无", False), ("no LoRA", False), ("未使用LoRA", False),
        ("without LoRA", False), ("flora", False),
    ],
)  # fmt: skip
def test_a_technique_that_is_named_as_not_used_is_not_used(read, line, used):
    document = read(HEAD + f"- ##### 优化策略\n  - {line}\n" + table({}))
    assert (document.rows[0].framework == "lora") is used


def test_a_column_of_changes_is_read_as_such(read):
    text = "| Machine | Changes | token/p/s | MFU |\n|---|---|---|---|\n| A100 (1x8) | GAS=512 | 4000 | 50% |\n"
    row = read(HEAD + text).rows[0]
    assert (row.fix_hp_text, row.batch.gradient_accumulation) == ("GAS=512", 512)


def test_remarks_among_labels_and_packages_without_one(read):
    text = (
        HEAD + "- ##### 依赖环境\n  - sentencepiece==0.2.0\n  - 训练编译器版本：y\n"
        "  - 注：另一个版本会不同\n  - 值得注意的是，此版本尚未实现重叠\n" + table({})
    )
    document = read(text)
    assert document.unread == ()
    assert document.entry("dependencies", "software").text == "sentencepiece==0.2.0"
    assert [item.text for item in document.notes] == ["注：另一个版本会不同", "值得注意的是，此版本尚未实现重叠"]


@pytest.mark.parametrize("before", ["在本case中，", "In this case, ", ""])
def test_a_label_may_have_words_before_it(before, read):
    document = read(HEAD + f"* 输入批尺寸\n  1. {before}data_parallel_size=world_size/TPsize/PPsize。\n" + table({}))
    entry = document.entry("data_parallel", "batch")
    assert (entry.label, entry.text) == (f"{before.strip()}{' ' * before.endswith(' ')}data_parallel_size",
                                         "world_size/TPsize/PPsize。")  # fmt: skip
    assert document.unread == ()


def test_results_of_benchmarks_are_evaluations(read):
    text = (
        HEAD + "* 通用指标\n\n| 指标名称 | 指标值 | 特殊说明 |\n|---|---|---|\n| MMMU（val）结果 | acc(推理/验证) | |\n"
    )
    document = read(text + table({}))
    assert document.entry("evaluation", "general").label == "MMMU（val）结果"
    assert document.unread == ()


@pytest.mark.parametrize("raw", ["a<br>b<br/>c<BR />d", "p3>p2>p1", "Task 1 & 2", "not this!", "&lt;", "~", "\\*"])
def test_what_does_no_harm_in_a_cell_comes_back_as_it_was(raw, read):
    assert cell(raw) == raw
    document = read(HEAD + table({"fix_hp": raw}))
    assert f"| {raw} |" in published_markdown(document, "zh")


@pytest.mark.parametrize("raw", ["<br onclick=x>", "<b>", "<br", "< br>", "<brx>", "<br><script>"])
def test_other_tags_do_not(raw):
    assert "<" not in cell(raw)


@pytest.mark.parametrize(
    ("accelerator", "row", "same"),
    [
        ("NVIDIA_A100-SXM4-40GB", "A100单机8卡（1x8）", True), ("NVIDIA_A100-SXM4-40GB", "H100单机8卡（1x8）", False),
        ("NVIDIA_A100-SXM4-40GB", "A10单机8卡（1x8）", False), ("昆仑芯AI加速卡R300", "R300单机8卡（1x8）", True),
        ("BI-V150 64G", "BI_V150 1x8", True), ("H800-80GB", "单机8卡（1x8）", True), ("a800", "A800 (1x8*80G)", True),
    ],
)  # fmt: skip
def test_the_environment_s_accelerator_is_the_row_s_unless_that_names_another(accelerator, row, same, read):
    document = read(HEAD.replace("X1", accelerator) + table({"配置": row}))
    assert document.rows[0].hardware.device_model == (accelerator if same else None)


def columns(read, **cells):
    """The first row of a table with these columns beside its figures, and what was not understood."""
    head = "| 配置 | parallel | " + " | ".join(cells) + " | token/p/s |"
    row = "| X1单机8卡 | TP1PP1 | " + " | ".join(cells.values()) + " | 100 |"
    batch = "* 输入批尺寸\n  1. MPE, default is 4096\n  2. LBS, default is 2\n  3. GAS, default is 4\n"
    delimiter = "|---" * (len(cells) + 3) + "|"
    document = read(HEAD + batch + "\n".join(["* 性能指标", "", head, delimiter, row]))
    return document.rows[0], [item.reason for item in document.unread]


@pytest.mark.parametrize(
    ("header", "cell", "field", "value", "message"),
    [
        ("seq_len", "8k", "seq_len", 8192, 0), ("seq_len", "4K", "seq_len", 4096, 0),
        ("seq_len", "2048 tokens", "seq_len", 2048, 0), ("seq_len", "long", "seq_len", None, 1),
        ("seq_len", "/", "seq_len", 4096, 0), ("DP", "two", "data_parallel", None, 1),
        ("MBS", "1-2", "micro_batch", None, 1), ("MBS", "1-2", "global_batch", None, 1),
        ("GBS", "~64", "global_batch", 64, 1), ("TP", "auto", "data_parallel", None, 1),
        ("ZeRO stage", "auto", "seq_len", 4096, 1), ("recompute", "maybe", "seq_len", 4096, 1),
    ],
)  # fmt: skip
def test_columns_of_settings(header, cell, field, value, message, read):
    row, reasons = columns(read, **{header: cell})
    assert (getattr(row.batch, field), len(reasons)) == (value, message)


@pytest.mark.parametrize(
    ("text", "claim"), [("4096", (4096, None)), ("1024 = 4M tokens", (1024, 4e6)), ("4M tokens", (None, 4e6))]
)
def test_a_column_of_global_batches_is_a_claim(text, claim, read):
    (result,) = columns(read, GBS=text)[0].claims
    assert tuple(item and item.value for item in (result.global_batch, result.tokens)) == claim


def test_a_column_of_sharding_stages_is_read(read):
    assert columns(read, **{"ZeRO stage": "stage2"})[0].parallelism.sharding_stage == 2


@pytest.mark.parametrize(
    ("cells", "machine", "message"),
    [
        ({"配置": "X1", "Nodes": "2", "GPUs per node": "8"}, (2, 8, None), 0),
        ({"配置": "X1", "Nodes": "1", "GPUs": "8"}, (1, 8, 8), 0),
        ({"配置": "X1", "Nodes": "2", "总卡数": "16"}, (2, 8, 16), 0),
        ({"配置": "X1", "GPUs": "8"}, (None, None, 8), 0),
        ({"配置": "X1", "Nodes": "2", "GPUs": "8"}, (2, None, None), 1),
        ({"配置": "X1", "Nodes": "two", "GPUs": "8"}, (None, None, 8), 1),
        ({"config": "X1 (2x8)"}, (2, 8, None), 0),
        ({"config": "config_X1x2x8"}, (None, None, None), 0),
    ],
)
def test_machines_by_columns(cells, machine, message, read):
    rows = ["| " + " | ".join([*item, last]) + " |" for item, last in ((cells, "token/p/s"), (cells.values(), "100"))]
    document = read(HEAD + "\n".join(["* 性能指标", "", rows[0], "|---" * (len(cells) + 1) + "|", rows[1]]))
    where = document.rows[0].hardware
    assert (where.nodes, where.devices_per_node, where.devices) == machine
    assert len([item for item in document.unread if "(1x8)" not in item.reason]) == message


def test_peak_memory_is_of_how_much(read):
    row, reasons = columns(read, **{"Peak mem (GB)": "141.2 / 192"})
    assert (row.metrics.memory.used[0].each.value, row.metrics.memory.total.value, row.metrics.other) == (
        141.2,
        192,
        {},
    )
    assert reasons == []


def test_a_second_column_of_a_meaning_is_listed(read):
    row, reasons = columns(read, **{"MFU": "50%", "MFU (%)": "60"})
    assert row.metrics.mfu.value == 0.5
    assert reasons == ["expected one column of mfu; this one is not read as that"]
