"""What an import leaves unknown: nothing that a document withholds, or says in prose, is filled from elsewhere."""

from __future__ import annotations

import re

import pytest
from llmperf.cases.library import library
from llmperf.cli.main import call
from llmperf.validation.check import findings
from llmperf_published.reading.document import import_document
from llmperf_published.reading.library_match import Known

DOCUMENT = """
# {title}
## Hardware environment
- {accelerator}
## Parallel strategy
- {strategy}
## General metrics
| item | value | remark |
| --- | --- | --- |
| model | {model} | |
| precision | bf16 | |
## Performance metrics
| configuration | {header} | fix_hp | token/p/s | MFU |
| --- | --- | --- | --- | --- |
| {configuration} | {cell} | / | {speed} | {mfu} |
"""
PLAIN = {
    "title": "NVIDIA configuration and results", "accelerator": "Accelerator: NVIDIA A100-SXM4-40GB",
    "strategy": "Technique: data parallel", "model": "llama2_7b", "header": "parallel", "configuration": "A100 (1x8)",
    "cell": "DP8", "speed": "2868", "mfu": "38.6%",
}  # fmt: skip


@pytest.fixture(scope="module")
def read():
    known = Known.of(library())
    return lambda **changes: import_document(DOCUMENT.format(**(PLAIN | changes)).encode(), "README.md", known)


def codes(document):
    return {item.code for item in findings("published", document)}


@pytest.mark.parametrize(
    "text",
    [r"\* (1x8)", "* (1x8)", "/ 单机8卡（1x8）", "TPU v5p (1x8)", "Vendor X (1x8)", "X (1x8)", "国产芯片单机8卡",
     "H100单机8卡（1x8）", "MLU (1x8)", "/"],
)  # fmt: skip
def test_a_row_on_an_unread_or_withheld_device_is_not_on_that_of_the_environment(read, text):
    document = read(configuration=text, mfu="9.9%")
    assert document.rows[0].hardware.device_model is None
    assert "LP311" not in codes(document) or text.startswith("H100")


@pytest.mark.parametrize(
    "text", ["A100 (1x8)", "1x8", "单机8卡（1x8）", "8 GPUs", "2 nodes, 8 GPUs each", "NVIDIA (1x8)", "", "GPU 1x8",
             "（1x8）（finetune）", "NVIDIA A100单机8卡（1x8*40G）"],
)  # fmt: skip
def test_a_row_that_says_nothing_else_of_its_device_is_on_that_of_the_environment(read, text):
    assert read(configuration=text).rows[0].hardware.device_model == "NVIDIA A100-SXM4-40GB"


def test_a_row_of_another_vendor_that_names_no_device_is_not_on_that_of_the_environment(read):
    assert read(configuration="1x8", header="tool", cell="tensorrt").rows[0].hardware.device_model
    assert read(configuration="1x8", header="tool", cell="kunlunxin_xtcl").rows[0].hardware.device_model is None


def test_a_device_that_is_not_read_is_listed(read):
    message = [item.text for item in read(configuration="Vendor X (1x8)").unread]
    assert message == ["Vendor X (1x8)"]
    assert read(configuration=r"\* (1x8)").unread == ()


@pytest.mark.parametrize(
    ("text", "device", "nodes", "each"),
    [("MLU单机8卡（1x8）", "MLU", 1, 8), ("MLU370-X8 (1x8)", "MLU370-X8", 1, 8), ("910 1*8p", "910", 1, 8),
     ("TPU v5p (4x4)", "TPU v5p", 4, 4), ("英伟达 A100 (1x8)", "A100", 1, 8),
     ("AMD Instinct MI300X (1x8)", "MI300X", 1, 8), ("Moore Threads S4000 (2x8)", "S4000", 2, 8),
     ("Ascend 910B (2x8)", "910B", 2, 8),
     ("Atlas 800T A2单机8卡（1x8）（finetune）", "Atlas 800T A2", 1, 8), ("GPU 1x8", None, 1, 8)],
)  # fmt: skip
def test_names_of_devices_are_read_whole(read, text, device, nodes, each):
    where = read(configuration=text).rows[0].hardware
    assert (where.device, where.nodes, where.devices_per_node) == (device, nodes, each)


@pytest.mark.parametrize(
    ("changes", "vendor"),
    [({"title": "Results"}, "nvidia"), ({"title": "英伟达配置与运行信息参考"}, "nvidia"),
     ({"title": "Results", "accelerator": "CPU: any", "configuration": "英伟达 A100 (1x8)"}, "nvidia"),
     ({"title": "Results", "accelerator": "CPU: any", "configuration": "MLU370 (1x8)"}, "cambricon"),
     ({"title": "Results", "accelerator": "CPU: any", "configuration": "Atlas 800T A2 (1x8)"}, "ascend"),
     ({"title": "Results", "accelerator": "CPU: any", "configuration": "8x A100-SXM4-80GB"}, "nvidia"),
     ({"title": "Results", "accelerator": "CPU: any", "configuration": "X9000 (1x8)"}, None),
     ({"title": "Results", "accelerator": "CPU: any", "configuration": "GPU 1x8"}, None)],
)  # fmt: skip
def test_the_vendor_is_that_of_title_accelerator_or_rows(read, changes, vendor):
    assert read(**changes).vendor == vendor


def test_one_label_for_machine_and_accelerator(read):
    document = read(accelerator="机器、加速卡型号: NVIDIA_A100-SXM4-40GB")
    assert document.rows[0].hardware.device_model == "NVIDIA_A100-SXM4-40GB"
    message = [item.message for item in findings("published", document) if item.code == "LP614"]
    assert not [message for message in message if "the accelerator" in message]


@pytest.mark.parametrize(
    ("strategy", "tensor", "sharding"),
    [("FSDP beats TP=4", None, None), ("TP=4 was slower", None, None), ("no TP=4", None, None),
     ("FSDP, because TP=4 was slower", None, None), ("不如 TP=4", None, None), ("TP=4+FSDP=2", 4, 2),
     ("Megatron-DeepSpeed with TP=4, PP=1", 4, None), ("张量并行 TP=4", 4, None), ("DeepSpeed ZeRO-1, TP=4", 4, None),
     ("Details: tp=4, pp=1", 4, None),
     ("ZeRO-DP O3, TP=4, DP_SIZE=2", 4, None), ("ZeRO-DP O2, ZeRO-Offload, TP=4", 4, None)],
)  # fmt: skip
def test_a_sentence_sets_no_degree(read, strategy, tensor, sharding):
    document = read(strategy=strategy, cell="—")
    layout = document.rows[0].parallelism
    assert (layout.tensor_parallel, layout.sharding_degree) == (tensor, sharding)
    message = [item.text for item in document.unread if "a sentence sets nothing" in item.reason]
    assert message == [strategy] * (tensor is None)


def test_settings_joined_by_a_plus_are_two(read):
    layout = read(cell="TP=4+FSDP=2").rows[0].parallelism
    assert (layout.tensor_parallel, layout.sharding_degree) == (4, 2)
    assert read(header="precision", cell="bf16+fp8").rows[0].precision is None


def test_what_only_the_name_of_a_configuration_says_is_not_held_against_the_row(read):
    text = DOCUMENT.format(**PLAIN)
    text = re.sub(r"\| parallel \|", "| config | parallel |", text.replace("| --- | --- | --- | --- | --- |", "|---|"))
    text = text.replace("| DP8 |", '| config_TP2PP1SH1SP4A10040Gx1x8 | sharding="stage1", sharding_degree=4 |')
    document = import_document(text.encode(), "README.md", Known.of(library()))
    assert document.rows[0].parallelism.tensor_parallel == 2
    assert "LP114" not in codes(document)
    other = import_document(text.replace("degree=4", "degree=4, tensor_parallel_degree=4").encode(), "README.md",
                            Known.of(library()))  # fmt: skip
    assert "LP114" in codes(other)


@pytest.mark.parametrize(("name", "result"), [("config_A100x1x16", False), ("config_A100x1x8", True)])
def test_cards_of_two_dies_may_have_a_rank_on_each(read, name, result):
    document = read(cell="TP2PP2DP4", strategy=f"Details: see {name}")
    assert ("LP111" in codes(document)) is result


def test_the_command_lists_what_stays_unknown(tmp_path, capsys):
    path = tmp_path / "README.md"
    path.write_text(DOCUMENT.format(**(PLAIN | {"configuration": "Vendor X (1x8)"})), encoding="utf-8")
    assert call(["import", str(path), "--out", str(tmp_path / "out")]) == 0
    assert "expected the name of a device such as A100" in capsys.readouterr().err
