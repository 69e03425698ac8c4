"""Throughputs of ranks that share a device say so."""

import sys
from pathlib import Path

import llmperf_schemas
from llmperf.cli.main import call

sys.path.insert(0, str(Path(__file__).parent))
import pytest
from report_pages import html, some


def test_a_throughput_of_a_rank_is_not_called_that_of_a_device():
    hardware = llmperf_schemas.example("result")["hardware"]
    page = html(some(1, hardware=hardware | {"device_share": 0.5}), "en")
    assert "tokens/s per device" not in page
    assert "a rank has 1/2 of a device; whole device 200.0" in page
    assert "whole device 100.0" not in html(some(1, hardware=hardware | {"device_share": 1.0}), "en")


@pytest.mark.slow
def test_a_device_that_documents_spell_differently_has_one_page(tmp_path):
    assert call(["site", "published", "-o", str(tmp_path / "site")]) == 0
    pages = [path.name for path in (tmp_path / "site" / "devices").iterdir()]
    assert len([name for name in pages if "a100-sxm4-40gb" in name]) == 1
