"""torchtitan trains as our own blocks do, in every layout that gloo allows."""

import pytest

pytestmark = pytest.mark.slow

MODELS = {"llama": {}, "qwen3": {"family": "qwen3", "qk_norm": "head", "head_width": 32, "tied_embeddings": True}}
LAYOUTS = {
    ("llama", "replicated"): {"micro_batch": 1},
    ("llama", "sharded"): {"micro_batch": 1, "sharding_stage": 3},
    ("llama", "checkpointed"): {"sharding_stage": 2, "gradient_checkpointing": True},
    ("llama", "pipeline"): {"pipeline_parallel": 2},
    ("qwen3", "tensor"): {"tensor_parallel": 2},
    ("qwen3", "sequence"): {"tensor_parallel": 2, "sequence_parallel": True},
}


def task(framework, model, tuning):
    return {"framework": framework, "model": MODELS[model], "tuning": tuning}


@pytest.fixture(scope="module")
def curves(train):
    """Each model by our own blocks in one process, and by torchtitan on two ranks."""
    whole = {model: task("pytorch", model, {"micro_batch": 4}) for model in MODELS}
    results = dict(zip(whole, train(list(whole.values()), ranks=1), strict=True))
    for key, tuning in LAYOUTS.items():  # torchtitan's meshes are those of a process
        (results[key],) = train([task("torchtitan", key[0], tuning)], ranks=2)
    return results


@pytest.mark.parametrize(("model", "layout"), LAYOUTS)
def test_every_layout_has_the_losses_of_one_plain_process(curves, model, layout):
    assert curves[model, layout]["losses"] == pytest.approx(curves[model]["losses"], abs=1e-5)
    assert curves[model, layout]["norms"] == pytest.approx(curves[model]["norms"], rel=1e-4)
