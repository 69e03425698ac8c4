"""Model classes of transformers train as our own blocks do, on one rank or several."""

from pathlib import Path

import llmperf
import pytest

pytestmark = pytest.mark.slow

FACTS = llmperf.read_toml(Path(__file__).parents[2] / "model_kinds.toml")
QWEN3, MIXTURE = {**FACTS["qwen3"], "tied_embeddings": True}, FACTS["mixture"]
MODELS = {"llama": {}, "qwen3": QWEN3, "mixture": MIXTURE, "gpt_oss": FACTS["gpt_oss"]}
WAYS = {
    "ddp": {"tuning": {"micro_batch": 2}},
    "fsdp2": {"tuning": {"sharding_stage": 3, "micro_batch": 1}},
    "zero3": {"tuning": {"sharding_stage": 3, "micro_batch": 1}, "options": {"engine": "deepspeed"}},
    "checkpointed": {"tuning": {"micro_batch": 1, "gradient_checkpointing": True}},
}
BALANCED = {"routing": "balanced"}


def task(framework, model, contract=None, options=None, **more):
    return {"framework": framework, "model": model, "contract": contract or {}, "options": options or {}, **more}


@pytest.fixture(scope="module")
def curves(train):
    """Each model by our own blocks in one process, and by transformers on two ranks."""
    whole = {name: task("pytorch", model, tuning={"micro_batch": 4}) for name, model in MODELS.items()}
    whole["balanced"] = task("pytorch", MIXTURE, BALANCED, tuning={"micro_batch": 4})
    parts = {(name, "fsdp2"): task("transformers", model, **WAYS["fsdp2"]) for name, model in MODELS.items()}
    parts |= {("llama", way): task("transformers", {}, **settings) for way, settings in WAYS.items()}
    parts["balanced", "ddp"] = task("transformers", MIXTURE, BALANCED, **WAYS["ddp"])
    parts["mixture", "checkpointed"] = task("transformers", MIXTURE, **WAYS["checkpointed"])
    results = dict(zip(whole, train(list(whole.values()), ranks=1), strict=True))
    return results | dict(zip(parts, train(list(parts.values()), ranks=2), strict=True))


@pytest.mark.parametrize(
    ("model", "way"),
    [*((model, "fsdp2") for model in MODELS), *(("llama", way) for way in WAYS if way != "fsdp2"),
     ("balanced", "ddp"), ("mixture", "checkpointed")],
)  # fmt: skip
def test_every_layout_has_the_losses_of_one_plain_process(curves, model, way):
    assert curves[model, way]["losses"] == pytest.approx(curves[model]["losses"], abs=1e-5)
    assert curves[model, way]["sequences"] == pytest.approx(curves[model]["sequences"], abs=1e-5)
