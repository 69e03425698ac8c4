"""The peak table: exact names, dense figures, a source for each."""

import pytest
from llmperf.plugins.loading import load_for
from llmperf.types import PeakFlops
from llmperf_nvidia import probe as catalogue

ENTRIES = catalogue.table().entries
SPARSE = (
    ("H100 80GB HBM3", 1978.9, 989.4),
    ("H100 PCIe", 1513, 756.5),
    ("H100 NVL", 1671, 835.5),
    ("H200", 1979, 989.5),
    ("H200 NVL", 1671, 835.5),
    ("A100-SXM4-80GB", 624, 312),
    ("L40S", 733, 362.05),
    ("A40", 299.4, 149.7),
    ("B200", 4500, 2250),
)
"""The figure that a datasheet prints with sparsity, and the dense one that is used, in bf16 TFLOP/s."""


def peak(model, dtype="bf16"):
    answer = load_for("nvidia", None).ask("llmperf_peak_flops", device_model=model, dtype=dtype)
    assert answer is None or isinstance(answer, PeakFlops)
    return answer


@pytest.mark.parametrize(
    ("name", "tflops", "confidence"),
    [
        ("NVIDIA A100-SXM4-40GB", 312, "datasheet"),
        ("nvidia a100 sxm4 40gb", 312, "datasheet"),
        ("H800", 989.4, "low"),
        ("NVIDIA_H800-80GB", 989.4, "low"),
        ("B300", 2250, "low"),
        ("NVIDIA B300 SXM6 AC", 2250, "low"),
        ("GB300", 2500, "low"),
    ],
)
def test_names_differ_in_case_and_separators_only(name, tflops, confidence):
    answer = peak(name)
    assert (answer.device_model, answer.flops_per_second, answer.confidence) == (name, tflops * 1e12, confidence)


@pytest.mark.parametrize(
    "name",
    ["A100", "H100", "H8000", "NVIDIA H800 PCIe", "NVIDIA A100-SXM4-160GB", "L4S", "NVIDIA H20-3e", "", "NVIDIA"],
)
def test_the_figure_of_a_similar_gpu_is_never_used(name):
    assert peak(name) is None


def test_an_fp32_run_is_not_held_against_tensor_cores():
    for model, fp32, tf32 in (("A100-SXM4-80GB", 19.5e12, 156e12), ("H100 80GB HBM3", 66.9e12, 494.7e12)):
        assert peak(model, "fp32").flops_per_second == fp32
        assert peak(model, "tf32").flops_per_second == tf32


@pytest.mark.parametrize(("model", "sparse", "dense"), SPARSE)
def test_sparse_figures_are_never_used(model, sparse, dense):
    assert peak(model).flops_per_second == dense * 1e12
    entry = catalogue.table().find(model)
    assert all(figure < 0.9 * sparse for dtype, figure in entry.dense_tflops.items() if dtype != "fp8")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.model)
def test_entry_is_dense_sourced_and_whole(entry):
    dense = entry.dense_tflops
    if "bf16" in dense:
        assert dense["bf16"] == dense["fp16"]
        assert dense["bf16"] / dense["tf32"] == pytest.approx(2, rel=0.03)  # a sparse figure among them would show
    if "fp8" in dense:
        assert dense["fp8"] / dense["bf16"] == pytest.approx(2, rel=0.03)
    assert len(entry.source) > 20
    assert entry.date >= "2019"
    assert (entry.confidence == "low") == entry.source.startswith("no datasheet")
    assert entry.memory_gib
    assert entry.memory_gb_per_second
    assert entry.interconnect
    offered = catalogue.offers_of(entry).precisions
    assert set(dense) <= set(offered)


def test_catalogue_has_every_entry_as_a_machine_to_plan_for():
    probes = list(load_for("nvidia", None).ask("llmperf_catalogue"))
    assert [probe.devices[0].model for probe in probes] == [entry.model for entry in ENTRIES]
    assert len(ENTRIES) >= 20
    for probe in probes:
        assert probe.simulated
        assert probe.offers.precisions[0] == "fp32"
        assert probe.interconnect


def test_every_device_has_rates_of_memory_links_and_each_of_its_peaks():
    plugins = load_for("nvidia", None)
    for entry in ENTRIES:
        rates = plugins.rates(entry.model)
        assert rates is not None, entry.model
        assert set(rates.matmul_flops_per_second) == set(entry.dense_tflops)
        assert rates.memory_bytes_per_second
        assert len(rates.links) == 2
        for dtype, tflops in entry.dense_tflops.items():
            assert 0.4 * tflops < rates.matmul_flops_per_second[dtype] / 1e12 < tflops


def test_before_ampere_there_is_neither_bf16_nor_tf32():
    (probe,) = [
        device for device in load_for("nvidia", None).ask("llmperf_catalogue") if "T4" in device.devices[0].model
    ]
    assert (probe.offers.precisions, probe.offers.features) == (("fp32", "fp16"), ("efficient_attention", "compiler"))
    assert peak("Tesla T4", "bf16") is None
