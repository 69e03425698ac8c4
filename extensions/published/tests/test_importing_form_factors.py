"""Form factors of devices: a row on an H100 PCIe is not on the H100 SXM of the environment."""

from __future__ import annotations

import pytest
from llmperf import library
from llmperf.validation.check import findings
from llmperf_published.reading.document import import_document
from llmperf_published.reading.library_match import Known
from llmperf_published.rules.machine import machine_of

KNOWN = Known.of(library())
H100, A100 = "NVIDIA H100-SXM5-80GB", "NVIDIA A100-SXM4-80GB"


def read(environment: str, cell: str):
    text = f"# NVIDIA results\n## Hardware environment\n- Accelerator: {environment}\n## Performance metrics\n"
    text += f"| configuration | tokens/s/GPU |\n|---|---|\n| {cell} | 3000 |\n"
    return import_document(text.encode(), "README.md", KNOWN)


def devices(document):
    machine = machine_of(document, document.rows[0])
    return [device.model for device in machine.devices] if machine else []


@pytest.mark.parametrize(
    ("environment", "cell", "models"),
    [
        (H100, "H100-PCIe (1x8)", ["NVIDIA H100 PCIe"]), (H100, "H100 PCIe 80GB (1x8)", ["NVIDIA H100 PCIe"]),
        (H100, "H100 (PCIe) 1x8", ["NVIDIA H100 PCIe"]), (H100, "H100 NVL (1x8)", ["NVIDIA H100 NVL"]),
        (A100, "A100-PCIe (1x8)", ["NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe"]),
        (A100, "A100-PCIE-40GB (1x8)", ["NVIDIA A100-PCIE-40GB"]), (H100, "H100 OAM (1x8)", []),
        ("NVIDIA H100 80GB HBM3", "H100 PCIe (1x8)", ["NVIDIA H100 PCIe"]),
        ("NVIDIA H100 PCIe", "H100-SXM5 (1x8)", ["NVIDIA H100 80GB HBM3"]),
    ],
)  # fmt: skip
def test_a_row_of_another_form_factor_is_not_on_the_device_of_the_environment(environment, cell, models):
    document = read(environment, cell)
    assert document.rows[0].hardware.device_model is None
    assert devices(document) == models


def test_a_system_of_another_form_factor_is_not_on_the_device_of_the_environment():
    assert read("NVIDIA H100 PCIe", "DGX-H100 (1x8)").rows[0].hardware.device_model is None


@pytest.mark.parametrize(
    ("environment", "cell"),
    [(H100, "H100 (1x8)"), (H100, "H100-SXM (1x8)"), (H100, "DGX-H100 (1x8)"), (H100, "HGX H100 (1x8)"),
     (H100, "H100 SXM5 80GB (1x8)"), (A100, "A100-SXM4-80GB (1x8)"), ("NVIDIA H100 80GB HBM3", "HGX H100 (1x8)"),
     ("NVIDIA H100 PCIe", "H100-PCIe (1x8)"), (H100, "H100 (1x8), PCIe 4.0")],
)  # fmt: skip
def test_a_row_of_the_same_form_factor_is_on_the_device_of_the_environment(environment, cell):
    assert read(environment, cell).rows[0].hardware.device_model == environment


def test_a_family_without_form_factors_in_its_names_is_found():
    text = "# AMD Instinct results\n\n| configuration | tokens/s/GPU |\n|---|---|\n| MI300X OAM (1x8) | 3000 |\n"
    document = import_document(text.encode(), "README.md", KNOWN)
    assert document.rows[0].hardware.device == "MI300X OAM"
    assert len(devices(document)) == 1


def test_a_column_of_accelerators_beside_one_of_hardware():
    text = f"# NVIDIA results\n## Hardware environment\n- Accelerator: {A100}\n## Performance metrics\n"
    text += "| Hardware | Accelerator | tokens/s/GPU |\n|---|---|---|\n| 2 nodes x 8 GPUs | H100 PCIe | 3000 |\n"
    document = import_document(text.encode(), "README.md", KNOWN)
    where = document.rows[0].hardware
    assert (where.device, where.device_model, where.nodes, where.devices_per_node) == ("H100 PCIe", None, 2, 8)
    assert devices(document) == ["NVIDIA H100 PCIe"]
    assert [item.code for item in findings("published", document) if item.severity == "error"] == []
