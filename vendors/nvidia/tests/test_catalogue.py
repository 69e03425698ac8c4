"""The peak table: exact names, dense figures, a source for each."""

from __future__ import annotations

import pytest
from llmperf import PeakEntry
from llmperf.plugins import load_for
from llmperf.types import PeakFlops
from llmperf_nvidia import catalogue


def peak(model: str, dtype: str = "bf16") -> PeakFlops | None:
    found = load_for("nvidia", None).ask("llmperf_peak_flops", device_model=model, dtype=dtype)
    assert found is None or isinstance(found, PeakFlops)
    return found


@pytest.mark.parametrize(
    "name", ["NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB", "NVIDIA_A100-SXM4-40GB", "nvidia a100 sxm4 40gb"]
)
def test_names_differ_in_case_and_separators_only(name: str) -> None:
    found = peak(name)
    assert found is not None
    assert (found.device_model, found.flops_per_second, found.confidence) == (name, 312e12, "datasheet")


@pytest.mark.parametrize("name", ["H800", "NVIDIA_H800-80GB", "NVIDIA H800"])
def test_h800_by_its_published_names_is_marked_as_uncertain(name: str) -> None:
    found = peak(name)
    assert found is not None
    assert (found.flops_per_second, found.confidence) == (989.4e12, "low")


@pytest.mark.parametrize("name", ["A100", "H100", "H8000", "NVIDIA H800 PCIe", "NVIDIA A100-SXM4-160GB", "", "NVIDIA"])
def test_a_neighbour_never_stands_in(name: str) -> None:
    assert peak(name) is None


def test_an_fp32_run_is_not_held_against_tensor_cores() -> None:
    for model, fp32, tf32 in (("A100-SXM4-80GB", 19.5e12, 156e12), ("H100 80GB HBM3", 66.9e12, 494.7e12)):
        assert peak(model, "fp32").flops_per_second == fp32
        assert peak(model, "tf32").flops_per_second == tf32


@pytest.mark.parametrize("entry", catalogue.table().entries, ids=lambda entry: entry.model)
def test_entry_is_dense_and_sourced(entry: PeakEntry) -> None:
    dense = entry.dense_tflops
    assert dense["bf16"] == dense["fp16"]
    assert dense["bf16"] / dense["tf32"] == pytest.approx(2, rel=0.01)  # a sparse figure among them would show
    assert entry.model.startswith("NVIDIA ")
    assert len(entry.source) > 20
    assert entry.date >= "2020"
    assert (entry.confidence == "low") == entry.source.startswith("no datasheet")


def test_catalogue_plans_for_every_entry() -> None:
    probes = list(load_for("nvidia", None).ask("llmperf_catalogue"))
    assert len(probes) == len(catalogue.table().entries)
    for probe in probes:
        assert probe.simulated
        assert probe.offers.precisions == ("fp32", "tf32", "bf16", "fp16")
        assert all(peak(probe.devices[0].model, dtype) is not None for dtype in probe.offers.precisions)
