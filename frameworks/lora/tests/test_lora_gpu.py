"""On an NVIDIA GPU: adapters train as on a CPU, in every precision, by DDP's trainer and by ZeRO."""

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

WITHIN = {"fp32": 1e-3, "tf32": 5e-3, "bf16": 0.03, "fp16": 0.03}


@pytest.fixture(scope="module", autouse=True)
def _gpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")


def task(precision="fp32", device="cuda:0", **tuning):
    lora = {"rank": 4, "alpha": 16, "dropout": 0.0, "target_modules": ["q_proj", "v_proj"]}
    contract = {"precision": precision, "lora": lora}
    return {"framework": "lora", "device": device, "contract": contract, "tuning": {"micro_batch": 2, **tuning}}


def test_every_precision_and_stage(train):
    tasks = {precision: task(precision) for precision in WITHIN}
    tasks |= {f"bf16, stage {stage}": task("bf16", sharding_stage=stage) for stage in (1, 2, 3)}
    (cpu,) = train([task(device="cpu")], ranks=1)
    results = train(list(tasks.values()), ranks=1, DS_ACCELERATOR="cuda")
    for name, found in zip(tasks, results, strict=True):
        assert found["frozen_unchanged"], name
        assert found["losses"] == pytest.approx(cpu["losses"], abs=WITHIN[name.split(",")[0]]), name
