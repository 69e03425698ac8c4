"""A measured peak is measured again after a run, and a peak that was lowered is found."""

from __future__ import annotations

from dataclasses import replace

from llmperf.plugins.loading import load_for
from llmperf.running import launched
from llmperf.running.launched import run_plan
from llmperf.validation.catalogue import Catalogue
from llmperf.validation.check import findings
from llmperf.validation.run_folder import run_folder_findings


def test_a_lowered_peak_is_found_after_the_run(stub_plan, tmp_path, monkeypatch):
    monkeypatch.setattr(launched, "PEAK_AGAIN_SECONDS", 0.0)
    plan, plugins = stub_plan(steps=6, ranks=2), load_for("stub", "stub")
    published = run_plan(plan, tmp_path / "published", plugins)
    assert published.peak_again is None
    peak = replace(plan.peak, confidence="measured", flops_per_second=1e12)
    lowered = run_plan(replace(plan, peak=peak), tmp_path / "lowered", plugins)
    assert lowered.peak_again.flops_per_second == 2e12
    assert run_folder_findings(lowered, tmp_path / "lowered") == []
    found = {one.code for one in findings("result", lowered, Catalogue(plugins))}
    assert "LP658" in found
    peak = replace(peak, flops_per_second=1.9e12)
    honest = run_plan(replace(plan, peak=peak), tmp_path / "honest", plugins)
    assert not {"LP658", "LP659"} & {one.code for one in findings("result", honest, Catalogue(plugins))}
