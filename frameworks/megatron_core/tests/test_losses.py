"""megatron-core trains as our own blocks do, in every layout that gloo allows."""

from pathlib import Path

import llmperf
import pytest

pytestmark = pytest.mark.slow

FACTS = llmperf.read_toml(Path(__file__).parents[2] / "model_kinds.toml")
MIXTURE = FACTS["mixture"]
MODELS = {"llama": {}, "tied": {"tied_embeddings": True}, "qwen3": FACTS["qwen3"], "mixture": MIXTURE,
          "balanced": MIXTURE, "stretched": FACTS["llama3"]}  # fmt: skip
SEQUENCE = {"tensor_parallel": 2, "sequence_parallel": True}
LAYOUTS = {
    ("llama", "data"): {"micro_batch": 1},
    ("llama", "distributed optimiser"): {"micro_batch": 1, "sharding_stage": 1},
    ("qwen3", "tensor"): {"tensor_parallel": 2},
    ("qwen3", "sequence"): SEQUENCE,
    ("stretched", "tensor"): {"tensor_parallel": 2},
    ("tied", "pipeline"): {"pipeline_parallel": 2},
    ("llama", "checkpointed"): {"pipeline_parallel": 2, "gradient_checkpointing": True},
    ("mixture", "experts"): {"expert_parallel": 2, "sharding_stage": 1},
    ("mixture", "sequence"): SEQUENCE,
    ("balanced", "experts"): {"expert_parallel": 2, "gradient_checkpointing": True},
    ("balanced", "sequence"): SEQUENCE,
}


def task(framework, model, tuning):
    contract = {"routing": "balanced"} if model == "balanced" else {}
    return {"framework": framework, "model": MODELS[model], "contract": contract, "tuning": tuning}


@pytest.fixture(scope="module")
def curves(train):
    """Each model by our own blocks in one process, and by megatron-core on two ranks."""
    whole = {model: task("pytorch", model, {"micro_batch": 4}) for model in MODELS}
    parts = {key: task("megatron_core", key[0], tuning) for key, tuning in LAYOUTS.items()}
    results = dict(zip(whole, train(list(whole.values()), ranks=1), strict=True))
    return results | dict(zip(parts, train(list(parts.values()), ranks=2), strict=True))


@pytest.mark.parametrize(("model", "layout"), LAYOUTS)
def test_every_layout_has_the_losses_of_one_plain_process(curves, model, layout):
    assert curves[model, layout]["losses"] == pytest.approx(curves[model]["losses"], abs=1e-5)
    assert curves[model, layout]["norms"] == pytest.approx(curves[model]["norms"], rel=1e-4)
