"""On an NVIDIA GPU: the same losses as on a CPU, in every precision."""

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

WITHIN = {"fp32": 1e-3, "tf32": 5e-3, "bf16": 0.02, "fp16": 0.02}


@pytest.fixture(scope="module", autouse=True)
def _gpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")


def task(framework, precision="fp32", **tuning):
    return {
        "framework": framework,
        "device": "cuda:0",
        "contract": {"precision": precision},
        "tuning": {"micro_batch": 2, **tuning},
    }


def test_every_precision_and_stage(train):
    tasks = {(name, precision): task(name, precision) for name in ("pytorch", "zero") for precision in WITHIN}
    tasks |= {(stage, "bf16"): task("zero", "bf16", sharding_stage=stage) for stage in (1, 2, 3)}
    (cpu,) = train([{"framework": "pytorch", "tuning": {"micro_batch": 4}}], ranks=1)
    results = train(list(tasks.values()), ranks=1, DS_ACCELERATOR="cuda")
    for (name, precision), found in zip(tasks, results, strict=True):
        off = max(abs(one - other) for one, other in zip(found["losses"], cpu["losses"], strict=True))
        if (name, precision) != ("zero", "fp16"):  # its first steps are skipped to find a loss scale
            assert off < WITHIN[precision], (name, precision, found["losses"])


def test_numbers_from_the_device_are_not_waited_for():
    import torch
    from llmperf_pytorch.losses import deferred

    torch.cuda._sleep(200_000_000)
    number = deferred(torch.tensor(1.5, device="cuda"))
    assert not number.ready()
    assert float(number) == 1.5
    assert number.ready()
