"""What a throughput counts: one device, one node or all devices, by its header and the cell's unit."""

from __future__ import annotations

import pytest
from llmperf import library
from llmperf_published.reading.document import import_document
from llmperf_published.reading.library_match import Known
from llmperf_published.rules.verdicts import judged

KNOWN = Known.of(library())
HEAD = """# NVIDIA results
## Hardware environment
- Accelerator: NVIDIA A100-SXM4-80GB
## General metrics
| item | value | remark |
| --- | --- | --- |
| model | llama2_7b | |
| precision | bf16 | |
## Performance metrics
"""


def read(header: str, *rows: str, head: str = HEAD):
    lines = [header, "|".join(["---"] * (header.count("|") + 1)), *rows]
    return import_document((head + "\n".join(f"| {line} |" for line in lines)).encode(), "README.md", KNOWN)


def counted(document):
    """Throughput of one device and of all of the only row."""
    (row,) = document.rows
    figures = (row.metrics.tokens_per_second_per_device, row.metrics.tokens_per_second)
    return tuple(figure and figure.value for figure in figures)


def reasons(document):
    return [f"{item.reason}: {item.text}" for item in document.unread if item.text != "NVIDIA results"]


@pytest.mark.parametrize("header", [
    "每卡吞吐（tokens/s）", "Per-GPU throughput (tokens/s)", "吞吐量(tokens/s/卡)", "单芯片吞吐(tokens/s)",
    "tokens/s/chip", "tokens/sec/chip", "tokens/s per GPU", "每GPU tokens/s", "tokens_per_sec_per_gpu",
    "tokens/(s*GPU)", "Avg. tokens per second per GPU", "Single-node throughput (tokens/s/GPU)", "TGS",
    "`tokens/card/sec`",
])  # fmt: skip
def test_a_throughput_of_one_device(header):
    document = read(f"configuration | {header} | MFU", "A100 (2x8) | 3000 | 40.4%")
    assert (counted(document), reasons(document)) == ((3000, None), [])
    assert [verdict.outcome for verdict in judged(document)[1]] == ["agrees"]


@pytest.mark.parametrize("header", [
    "tokens/s", "Throughput (tokens/s)", "Total throughput (tokens/s)", "吞吐（tokens/s）", "总吞吐(tokens/s)",
    "Throughput (tokens per second)", "Total throughput of all GPUs (tokens/s)", "Average training speed (tokens/s)",
])  # fmt: skip
def test_a_throughput_of_all_devices(header):
    document = read(f"configuration | {header} | MFU", "A100 (2x8) | 48000 | 40.4%")
    assert (counted(document), reasons(document)) == ((None, 48000), [])


@pytest.mark.parametrize("header", [
    "Throughput per rack (tokens/s)", "每机柜吞吐(tokens/s)", "Throughput (tokens/s, 8 GPUs)",
    "Throughput (tokens/s, odd)", "GPU throughput (tokens/s)", "Throughput (tokens/GPU/day)",
    "Throughput (tokens/hour)", "TPS",
])  # fmt: skip
def test_a_header_with_other_words_does_not_say_what_is_counted(header):
    document = read(f"configuration | {header} | MFU", "A100 (2x8) | 3000 | 40.4%")
    assert counted(document) == (None, None)
    assert reasons(document) == [f"expected a unit such as token/p/s under {header!r} to know what it counts: 3000"]
    ((verdict,)) = judged(document)[1]
    assert verdict.why == ("what its throughput counts is not said",)


@pytest.mark.parametrize(
    "header", ["Throughput per node (tokens/s)", "单机吞吐(tokens/s)", "每节点吞吐 (tokens/s)", "tokens/s/node"]
)
def test_a_throughput_of_one_node(header):
    document = read(f"configuration | {header} | MFU", "A100 (2x8) | 24000 | 40.4%")
    figure = document.rows[0].metrics.tokens_per_second_per_device
    assert (figure.value, figure.printed, figure.scale, figure.text) == (3000, "24000", 0.125, "24000")
    assert [verdict.outcome for verdict in judged(document)[1]] == ["agrees"]
    unknown = read(f"GPUs | {header} | MFU", "16 | 24000 | 40.4%")
    assert counted(unknown) == (None, None)
    assert f"expected the devices of each node in the row, to divide the figure under {header!r}: 24000" in reasons(
        unknown
    )


@pytest.mark.parametrize("cell", ["", "-", "*"])
def test_a_withheld_cell_takes_no_figures_place(cell):
    for header, row in (("tokens/s | tokens/s/GPU", f"{cell} | 3000"), ("tokens/s/GPU | tokens/s", f"3000 | {cell}")):
        assert counted(read(f"configuration | {header}", f"A100 (1x8) | {row}")) == (3000, None)
    assert counted(read("configuration | tokens/s/GPU | tokens/s", f"A100 (1x8) | {cell} | 24000")) == (None, 24000)


def test_a_withheld_throughput_is_withheld():
    ((verdict,)) = judged(read("configuration | tokens/s | MFU", "A100 (1x8) | - | 40%"))[1]
    assert verdict.why == ("its throughput is withheld",)


@pytest.mark.parametrize(
    ("header", "cell", "unit"),
    [("tokens/s", "28800 tokens/s/GPU", "tokens/s/GPU"), ("tokens/s/GPU", "3.6k tokens/s", "tokens/s"),
     ("每节点吞吐", "3000 tokens/s/GPU", "tokens/s/GPU")],
)  # fmt: skip
def test_a_unit_that_contradicts_the_column_is_not_read(header, cell, unit):
    document = read(f"configuration | {header}", f"A100 (1x8) | {cell}", head=HEAD.replace("MFU", ""))
    assert counted(document) == (None, None)
    assert reasons(document) == [f"expected the unit of the column under {header!r}, found {unit}: {cell}"]


def test_a_unit_that_completes_its_column_is_read():
    assert counted(read("configuration | Throughput per GPU", "A100 (1x8) | 3.6k tokens/s")) == (3600, None)
    assert counted(read("configuration | throughput", "A100 (1x8) | 3.6k tokens/s/GPU")) == (3600, None)


def test_a_second_throughput_of_the_same_is_listed():
    document = read("configuration | tokens/s/GPU | tokens/s/card", "A100 (1x8) | 3000 | 3100")
    assert counted(document) == (3000, None)
    assert reasons(document) == ["expected one throughput of one device, found another under 'tokens/s/card': 3100"]
