"""Columns of counts, and columns of numbers that are not known."""

from __future__ import annotations

import pytest
from llmperf import library
from llmperf.validation.check import findings
from llmperf_published.reading.document import import_document
from llmperf_published.reading.library_match import Known
from llmperf_published.rules.verdicts import judged

KNOWN = Known.of(library())


def read(header: str, row: str):
    lines = [header, "|".join(["---"] * (header.count("|") + 1)), row]
    return import_document(("# Results\n\n" + "\n".join(f"| {line} |" for line in lines)).encode(), "t.md", KNOWN)


def messages(document, code: str):
    return [item.message for item in findings("published", document) if item.code == code]


@pytest.mark.parametrize("header", ["每节点卡数", "单节点卡数", "# GPUs/node", "每台卡数", "GPUs per node"])
def test_devices_of_each_node(header):
    document = read(f"nodes | {header} | tokens/s/GPU", "2 | 8 | 3000")
    where = document.rows[0].hardware
    assert (where.nodes, where.devices_per_node, where.world_size) == (2, 8, 16)


def test_nodes_are_devices_by_those_of_each():
    where = read("GPUs | GPUs per node | tokens/s/GPU", "16 | 8 | 3000").rows[0].hardware
    assert (where.nodes, where.devices_per_node, where.devices) == (2, 8, 16)


@pytest.mark.parametrize(("header", "row", "found"), [
    ("nodes | GPUs per node | GPUs", "2 | 8 | 32", "found 32"), ("GPUs | GPUs per node", "12 | 8", "found 12"),
    ("nodes | GPUs per node | total GPUs", "2 | 8 | 32", "found 32"),
])  # fmt: skip
def test_counts_that_contradict_each_other_are_errors(header, row, found):
    found_messages = messages(read(f"{header} | tokens/s/GPU", f"{row} | 3000"), "LP111")
    assert found_messages
    assert all(found in message for message in found_messages)


def test_counts_that_agree_are_no_errors():
    assert messages(read("nodes | GPUs per node | GPUs | tokens/s/GPU", "2 | 8 | 16 | 3000"), "LP111") == []


def test_a_column_of_numbers_that_is_not_known_is_listed_once():
    document = read("GPUs | MFU | Yield (tok)", "8 | 40% | 3000")
    assert [item.text for item in document.unread if "a column that is known" in item.reason] == ["Yield (tok)"]
    (verdict,) = judged(document)[1]
    assert verdict.why[0].startswith("no column is known to be a throughput; not understood: ")
    assert "Yield (tok)" in verdict.why[0]
