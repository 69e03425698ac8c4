"""Ranges of MFU and throughput: `25.4-50.6`, read and checked at both ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmperf import library
from llmperf_published.reading.document import import_document
from llmperf_published.reading.library_match import Known
from llmperf_published.reading.numbers import figure
from llmperf_published.rules.verdicts import judged

KNOWN = Known.of(library())
FLOPS_PER_PEAK = 6 * 7e9 / 312e12


def read(throughput: str, mfu: str, header: str = "MFU"):
    lines = ["# NVIDIA results", "", f"| configuration | model | precision | seq_len | token/p/s | {header} |",
             "|---|---|---|---|---|---|",
             f"| A100 (1x8) | llama2_7b | bf16 | 4096 | {throughput} | {mfu} |"]  # fmt: skip
    return import_document("\n".join(lines).encode(), "t.md", KNOWN)


@pytest.mark.parametrize(
    ("text", "header", "ends"),
    [("25.4-50.6", "MFU (%)", (0.254, 0.506)), ("25.4%-50.6%", "MFU", (0.254, 0.506)),
     ("25.4\u201350.6%", "MFU", (0.254, 0.506)), ("0.25 ~ 0.5", "MFU", (0.25, 0.5)),
     ("2900-3100", "token/p/s", (2900, 3100)), ("2.9k-3.1k", "t", (2900, 3100)),
     ("2,900 to 3,100 tokens/s", "t", (2900, 3100)), ("2900 至 3100", "t", (2900, 3100))],
)  # fmt: skip
def test_a_range_has_two_ends(text, header, ends):
    result = figure(text, header)
    assert result.value is None
    assert tuple(end.value for end in result.ends) == pytest.approx(ends)


@pytest.mark.parametrize("text", ["50-25", "25-25", "3-", "1-2-3", "2900-3.1k", "10%-20", "2024-01-02", "0-5"])
def test_other_text_with_a_dash_is_no_range(text):
    result = figure(text, "loss")
    assert result is None or result.ends is None


@pytest.mark.parametrize(
    ("throughput", "mfu", "outcome"),
    [
        ("2000-3000", "26.9%-40.4%", "agrees"),
        ("2000-3000", "26.9%-50.4%", "wrong"),
        ("2000-3000", "16.9%-40.4%", "wrong"),
        ("2500", "26.9%-40.4%", "agrees"),
        ("3500", "26.9%-40.4%", "wrong"),
        ("2000-3000", "33%", "agrees"),
        ("2000-3000", "65%", "wrong"),
    ],
)
def test_a_range_is_checked_at_both_ends(throughput, mfu, outcome):
    assert judged(read(throughput, mfu))[1][0].outcome == outcome


def test_a_share_of_more_than_all_at_one_end_is_wrong():
    findings, _ = judged(read("2000-3000", "50%-120%"))
    assert "LP313" in {finding.code for finding in findings}


def test_bare_ranges_are_percent_by_their_magnitude():
    published = read("2000-3000", "26.9-40.4")
    assert published.rows[0].metrics.mfu.ends[1].value == pytest.approx(0.404)
    assert published.tables[0].columns[5].unit == "percent"


@pytest.mark.slow
@given(st.integers(100, 9000), st.integers(1, 4000))
def test_both_ends_of_an_honest_range_agree(low, more):
    shares = [f"{100 * speed * FLOPS_PER_PEAK:.2f}%" for speed in (low, low + more)]
    published = read(f"{low}-{low + more}", "-".join(shares))
    mfu = published.rows[0].metrics.mfu
    if mfu.ends is None:  # both print the same digits
        return
    findings, verdicts = judged(published)
    codes = {finding.code for finding in findings if finding.severity == "error"}
    assert codes <= {"LP313"}
    assert verdicts[0].outcome == ("wrong" if codes else "agrees")
    assert bool(codes) == (mfu.numbers[1].bounds[0] > 1 or low * FLOPS_PER_PEAK > 1)
