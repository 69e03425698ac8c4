"""A measured peak is measured again after a run, and MFU is by the larger of the two."""

from dataclasses import replace

import pytest
from llmperf.plugins.loading import load_for
from llmperf.running import launched
from llmperf.running.launched import run_plan
from llmperf.validation.catalogue import Catalogue
from llmperf.validation.check import findings
from llmperf.validation.run_folder import run_folder_findings


@pytest.mark.slow
def test_the_larger_peak_counts(stub_plan, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMPERF_STUB_PEAK", "timed")
    monkeypatch.setattr(launched, "PEAK_AGAIN_SECONDS", 0.0)
    plan, plugins = stub_plan(steps=6, ranks=2), load_for("stub", "stub")
    published = run_plan(plan, tmp_path / "published", plugins)
    assert published.peak_again is None
    peak = replace(plan.peak, confidence="measured", flops_per_second=1e12)
    lowered = run_plan(replace(plan, peak=peak), tmp_path / "lowered", plugins)
    assert lowered.peak_again.flops_per_second == 2e12
    assert run_folder_findings(lowered, tmp_path / "lowered") == []
    assert {mfu.peak_flops_per_second for mfu in lowered.mfu} == {2e12 * plan.device_share}
    assert "LP658" not in {finding.code for finding in findings("result", lowered, Catalogue(plugins))}
    edited = replace(lowered, mfu=tuple(replace(mfu, peak_flops_per_second=1e11) for mfu in lowered.mfu))
    assert [finding.code for finding in findings("result", edited, Catalogue(plugins))].count("LP658") == 1
    peak = replace(peak, flops_per_second=2.1e12)
    larger = run_plan(replace(plan, peak=peak), tmp_path / "larger", plugins)
    assert {mfu.peak_flops_per_second for mfu in larger.mfu} == {2.1e12 * plan.device_share}
