"""On a GPU: its own kernels, and every framework in every precision, train to the losses of float32 on the CPU."""

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


WITHIN = {"fp32": 1e-3, "tf32": 5e-3, "bf16": 0.03, "fp16": 0.03}
LORA = {"lora": {"rank": 4, "alpha": 16, "dropout": 0.0, "target_modules": ["q_proj", "v_proj"]}}
IN_EACH = [
    (framework, precision, 1 if framework == "megatron_deepspeed" else 0)
    for framework in ("pytorch", "zero", "megatron_deepspeed", "lora")
    for precision in WITHIN
    if (framework, precision) not in (("megatron_deepspeed", "fp16"), ("zero", "fp16"))
]
"""ZeRO's first steps in fp16 are skipped to find a loss scale."""
SHARDED = [(framework, "bf16", stage) for framework in ("zero", "lora") for stage in (1, 2, 3)]


def test_every_framework_trains_in_every_precision_and_stage_as_on_a_cpu(train):
    def of(framework, precision="fp32", stage=0, device="cuda:0"):
        contract = {"precision": precision, **(LORA if framework == "lora" else {})}
        tuning = {"micro_batch": 2, "sharding_stage": stage}
        return {"framework": framework, "device": device, "contract": contract, "tuning": tuning}

    expected = dict(
        zip(("pytorch", "lora"), train([of("pytorch", device="cpu"), of("lora", device="cpu")], 1), strict=True)
    )
    keys = [*IN_EACH, *SHARDED]
    for key, found in zip(keys, train([of(*key) for key in keys], ranks=1, DS_ACCELERATOR="cuda"), strict=True):
        losses = expected["lora" if key[0] == "lora" else "pytorch"]["losses"]
        assert found["losses"] == pytest.approx(losses, abs=WITHIN[key[1]]), key


def test_numbers_from_the_device_are_not_waited_for():
    import torch
    from llmperf_torchkit.losses import deferred

    torch.cuda._sleep(200_000_000)
    number = deferred(torch.tensor(1.5, device="cuda"))
    assert not number.ready()
    assert float(number) == 1.5
    assert number.ready()
