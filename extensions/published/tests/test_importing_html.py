"""HTML tables inside Markdown documents."""

from time import process_time

import pytest
from llmperf_published.reading.markdown import blocks
from llmperf_published.reporting.markdown import published_markdown
from published_tables import read

HEAD = "# NVIDIA results\n## Hardware environment\n- Accelerator: NVIDIA A100-SXM4-80GB\n## Performance\n"
TABLE = """<table>
  <thead><tr><th>configuration</th><th>fix_hp</th><th>tokens/p/s</th><th>mem</th><th><b>MFU</b></th></tr></thead>
  <tr><td rowspan="2">A100 (1x8)</td><td>MPE=2048<br>LBS=3</td><td>4062</td><td>70.09*8 GB</td><td>54.7%</td></tr>
  <tr>
    <td>/</td>
    <td>3000</td><td>46.80*2 + 38.93*2 GB</td>
    <td>40.4&#37;</td>
  </tr>
</table>
"""


def test_rows_of_an_html_table_are_results():
    document = read(HEAD + TABLE)
    assert [(row.line, row.hardware.devices_per_node, row.metrics.mfu.value) for row in document.rows] == [
        (7, 8, 0.547),
        (8, 8, 0.404),
    ]
    assert [row.batch.seq_len for row in document.rows] == [2048, None]
    assert [len(row.metrics.memory.used) for row in document.rows] == [1, 2]
    assert document.unread[1:] == ()  # the first is the heading without a known word


def test_an_html_table_in_a_markdown_report_is_imported_as_the_same_rows():
    document = read(HEAD + TABLE)
    again = read(published_markdown(document, "en"))
    assert [row.metrics for row in again.rows] == [row.metrics for row in document.rows]
    assert [row.fix_hp_text for row in again.rows] == [row.fix_hp_text for row in document.rows]


def test_text_around_cells_and_unknown_tags_are_kept():
    (outside, table) = blocks(["<table>before", "<tr><td><x>a</x> | *b* __c__</td><td>d", "</table>"])
    assert (outside.kind, outside.text) == ("text", "before")
    assert table.rows == ((2, (r"\<x>a\</x> \| \*b\* \_\_c\_\_", "d")),)


def test_a_table_that_is_never_closed_is_text():
    assert [block.kind for block in blocks(["<table>", "<tr><td>a", "# heading"])] == ["text", "heading"]


HOSTILE = {
    "spans": "<tr><td rowspan=999 colspan=999>x" * 20_000,
    "open": "<" * 1_000_000,
    "tags": "<td " * 100_000,
    "cells": "<td>" * 100_000,
    "rows": "<tr><td rowspan=999>" * 30_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tables_take_no_long_time(name):
    text, began = HOSTILE[name], process_time()
    lines = [text[start : start + 9000] for start in range(0, len(text), 9000)]
    result = blocks(["<table>", *lines, "</table>"])
    assert sum(len(cells) for block in result for _, cells in block.rows) < 3_000_000
    assert process_time() - began < 5
