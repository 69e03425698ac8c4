"""Kernels that only a GPU has train to the losses of float32 on the CPU: attention, FSDP2, products of experts."""

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

WIDE = {"hidden_size": 256, "intermediate_size": 512, "attention_heads": 4, "kv_heads": 2}
"""Heads of 64 dimensions, which every attention kernel has."""
BF16 = 0.03


@pytest.fixture(scope="module", autouse=True)
def _gpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("no NVIDIA GPU of compute capability 8.0 or more here")


def task(model=None, device="cuda:0", precision="bf16", **tuning):
    import torch

    major, minor = torch.cuda.get_device_capability()
    return {
        "framework": "pytorch",
        "device": device,
        "details": {"compute_capability": f"{major}.{minor}"},
        "model": model or WIDE,
        "contract": {"precision": precision},
        "tuning": {"micro_batch": 2, **tuning},
    }


def on_cpu(model=None):
    return {**task(model, "cpu", "fp32"), "tuning": {"micro_batch": 4}}


@pytest.mark.parametrize("attention", ["auto", "efficient", "cudnn", "flex"])
def test_an_attention_kernel_trains_as_float32_does(train, attention):
    found, compiled = train([task(attention=attention), task(attention=attention, compile=True)], ranks=1)
    (expected,) = train([on_cpu()], ranks=1)
    assert found["losses"] == pytest.approx(expected["losses"], abs=BF16)
    assert compiled["losses"] == pytest.approx(expected["losses"], abs=BF16)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_fsdp2_on_one_gpu_trains_as_float32_does(train, stage):
    found, recomputed = train(
        [task(sharding_stage=stage), task(sharding_stage=stage, gradient_checkpointing=True)], ranks=1
    )
    (expected,) = train([on_cpu()], ranks=1)
    assert found["losses"] == pytest.approx(expected["losses"], abs=BF16)
    assert recomputed["losses"] == pytest.approx(found["losses"], abs=BF16)


@pytest.mark.parametrize("name", ["qwen3_moe_tiny", "gpt_oss_tiny"])
def test_grouped_products_of_experts_train_as_float32_does(train, name):
    import torch
    from llmperf import library
    from llmperf.files.json_files import builtins

    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("torch's grouped_mm needs compute capability 9.0")
    model = builtins(library().model(name))
    (found,) = train([task(model)], ranks=1)
    (expected,) = train([on_cpu(model)], ranks=1)
    assert found["losses"][0] == pytest.approx(expected["losses"][0], rel=0.01)
    assert found["losses"][-1] < found["losses"][0]
