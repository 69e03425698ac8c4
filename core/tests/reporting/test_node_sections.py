"""What reports say about the nodes of a run, and about ranks that made others wait."""

import json
from dataclasses import replace

import llmperf_schemas
import pytest
from llmperf.files import json_files
from llmperf.reporting.markdown import render_results
from llmperf.reporting.result_sheets import result_sheet
from llmperf.types import Result
from llmperf.types.hosts import NodeResult, Straggler, Waiting


def node(number, **known):
    return NodeResult(
        node_rank=number,
        host=f"gpu-{number}",
        interface="eth0",
        first_rank=2 * number,
        last_rank=2 * number + 1,
        coordinates={"tensor": (0, 1), "data": (number, number)},
        clock_offset_seconds=3600.0001 * number,
        clock_error_seconds=0.001,
        **known,
    )


SLOW = Straggler(rank=3, node_rank=1, busy_seconds=11.55, lag_seconds=4.42)
WAITING = Waiting(
    share=0.22, least_share=0.04, most_share=0.41, stragglers=(SLOW,), cost_seconds=4.42, method="by waits"
)


@pytest.fixture
def result():
    found = json_files.convert(llmperf_schemas.example("result"), Result, "result")
    return replace(found, hardware=replace(found.hardware, nodes=2),
                   nodes=(node(0), node(1, differs={"kernel": "5.4", "packages.torch": "2.14.0"})))  # fmt: skip


def card(result):
    """Label and text of each row that `llmperf run` ends with."""
    section = next(section for section in result_sheet(result).sections() if section.card and section.rows)
    return {row.label: row.text for row in section.rows}


def test_the_card_names_hosts_waits_and_stragglers(result):
    window = replace(result.metrics, window_seconds=12.01)
    rows = card(replace(result, waiting=WAITING, metrics=window))
    assert rows["hosts"] == "gpu-0, gpu-1; 1 differ from the others"
    assert rows["waits for communication"] == "22.0 % of the window; by rank 4.0 % to 41.0 %"
    expected = "rank 3 on node 1 (gpu-1); without that the window might be 4.42 s shorter, of 12.01 s"
    assert rows["stragglers"] == expected


def test_a_slow_node_is_named_in_place_of_its_ranks(result):
    both = (SLOW, replace(SLOW, rank=2))
    rows = card(replace(result, waiting=replace(WAITING, stragglers=both, slow_nodes=(1,))))
    assert rows["stragglers"].startswith("node 1 (gpu-1); without that")


def test_a_run_on_one_machine_has_no_such_rows(result):
    assert {"hosts", "waits for communication", "stragglers"}.isdisjoint(card(replace(result, nodes=())))


def test_markdown_has_a_table_of_nodes_with_their_ranks_and_differences(result):
    text = render_results([replace(result, waiting=WAITING)], "en")
    assert "| 1 | gpu-1 | eth0 | 2-3 | TP 0-1, DP 1 | 3600 | kernel=5.4, packages.torch=2.14.0 |" in text
    assert "| 3 | node 1 (gpu-1) | 11.55 | 4.42 |" in text
    assert "by waits" in text


def test_a_table_of_many_nodes_lists_those_that_differ(result):
    nodes = [node(number) for number in range(2048)]
    nodes[700] = replace(nodes[700], differs={"kernel": "5.4"})
    nodes[800] = replace(nodes[800], lost_seconds=20.2)
    text = render_results([replace(result, nodes=tuple(nodes))], "en")
    assert "gpu-700" in text
    assert "did not answer for 20 s" in text
    assert "gpu-701" not in text
    assert "2046 of 2048 nodes are not listed" in text
    assert len(text) < 20000


def test_nodes_come_back_from_json(result):
    full = replace(result, waiting=WAITING)
    assert json_files.convert(json.loads(json_files.encode(full)), Result, "result") == full
