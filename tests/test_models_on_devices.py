"""Every shipped model plans on the devices of every vendor's catalogue, by the framework that builds all families."""

import os

import pytest
from llmperf import library
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site
from llmperf.validation import installed_vendors, vendor_catalogue

NODES = 128
"""Of eight devices: the largest models fit into the smallest devices."""
SETTINGS = ("micro_batch=1", "sharding_stage=3", "gradient_checkpointing=true", f"global_batch={8 * NODES}")
MODELS = sorted(library().paths("models"))
CATALOGUES = [catalogue for vendor in sorted(installed_vendors()) if (catalogue := vendor_catalogue(vendor))]
DEVICES = [
    (catalogue.vendor, device.model, next(name for name in ("bf16", "fp16", "fp32") if name in offers.precisions))
    for catalogue in CATALOGUES
    for device, offers in catalogue.devices
]
"""Vendor, model and the precision that most train in on it."""


def plan(model, device, *settings):
    """Plan a model on a device; nothing may refuse it."""
    vendor, name, precision = device
    chosen = (f"model={model}", f"precision={precision}", *SETTINGS, *settings)
    on = f"{name}:{NODES}x8"
    outcome = plan_only(Selection("default", framework="pytorch", settings=chosen), Site(vendor=vendor, on=on))
    assert not outcome.problems
    assert outcome.plan.memory


def test_all_vendors_with_a_catalogue_have_devices():
    assert {vendor for vendor, _, _ in DEVICES} == {"ascend", "kunlunxin", "nvidia", "rocm"}


@pytest.mark.parametrize(
    ("model", "device"),
    [
        pytest.param(MODELS[place % len(MODELS)], DEVICES[place % len(DEVICES)], id="-".join(
            (MODELS[place % len(MODELS)], DEVICES[place % len(DEVICES)][1])
        ))
        for place in range(max(len(MODELS), len(DEVICES)))
    ],
)  # fmt: skip
def test_each_model_and_each_device_is_planned(model, device):
    plan(model, device)


ALL_TESTS = bool(os.environ.get("LLMPERF_ALL_TESTS"))
ROUTINGS = ("learned", "balanced", "skewed")
MIXTURES = [name for name in MODELS if library().model(name).mixture is not None]


@pytest.mark.parametrize("model", MIXTURES)
def test_mixtures_plan_with_a_routing_in_turn(model):
    device = next(device for device in DEVICES if "H200" in device[1])
    for routing in ROUTINGS if ALL_TESTS else [ROUTINGS[MIXTURES.index(model) % len(ROUTINGS)]]:
        plan(model, device, f"routing={routing}")


@pytest.mark.long
@pytest.mark.parametrize("device", DEVICES, ids=[name for _, name, _ in DEVICES])
def test_every_model_on_every_device(device):
    for model in MODELS:
        plan(model, device)
