"""On one NVIDIA GPU: the built-in engine gives a CPU's losses, in every precision."""

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

WITHIN = {"fp32": 1e-3, "tf32": 5e-3, "bf16": 0.02}


def test_every_precision(train):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    (cpu,) = train([{"framework": "pytorch", "tuning": {"micro_batch": 4}}], ranks=1)
    tasks = [
        {
            "framework": "megatron_deepspeed",
            "device": "cuda:0",
            "contract": {"precision": precision},
            "tuning": {"micro_batch": 2, "sharding_stage": 1},
        }
        for precision in WITHIN
    ]
    for within, found in zip(WITHIN.values(), train(tasks, ranks=1, DS_ACCELERATOR="cuda"), strict=True):
        assert found["losses"] == pytest.approx(cpu["losses"], abs=within)
