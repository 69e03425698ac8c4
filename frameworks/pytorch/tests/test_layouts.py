"""Every sharding stage trains as one process does: one start of four ranks for all of them."""

import pytest

pytestmark = pytest.mark.slow


def task(contract=None, model=None, options=None, **tuning):
    contract = {"global_batch": 8, "steps": 4, **(contract or {})}
    tuning = {"micro_batch": 1, **tuning}
    return {
        "framework": "pytorch", "model": model or {}, "contract": contract, "tuning": tuning, "options": options or {},
    }  # fmt: skip


def same(results, expected):
    """Each result is that of one process, of the model that its name ends with."""
    for name, result in results.items():
        wanted = expected[next((model for model in ("tied", "ALiBi") if model in name), "")]
        tolerance = 0.02 if "16" in name else 1e-5
        assert result["losses"] == pytest.approx(wanted["losses"], abs=tolerance), name
        assert result["sequences"] == pytest.approx(wanted["sequences"], abs=tolerance), name
        if "16" not in name:
            assert result["norms"] == pytest.approx(wanted["norms"], abs=3e-5), name


def test_shared_models_train_as_one_process_does(program, train):
    alibi = {**program.BAICHUAN, "position_encoding": "alibi"}
    whole = {**task(micro_batch=8), "ranks": 1}
    tied = {"tied_embeddings": True}
    whole_tied = {**task(model=tied, micro_batch=8), "ranks": 1}
    whole_alibi = {**task(model=alibi, micro_batch=8), "ranks": 1}
    bf16 = {"precision": "bf16"}
    shared = {
        "stage 1": task(sharding_stage=1),
        "stage 2": task(sharding_stage=2),
        "stage 3": task(sharding_stage=3, options={"prefetch": 2}),
        "replicas of stage 2": task(sharding_stage=2, sharding_degree=2),
        "replicas of stage 3, recomputed": task(sharding_stage=3, sharding_degree=2, gradient_checkpointing=True),
        "stage 3, operations recomputed": task(sharding_stage=3, gradient_checkpointing=True, recompute="operations"),
        "stage 3, bf16": task(bf16, sharding_stage=3),
        "stage 3, fp16": {**task(sharding_stage=3), "computed_in": "fp16"},
        "stage 1, bf16, added up in fp32": task(bf16, sharding_stage=1, accumulation_dtype="fp32"),
        "stage 2, ALiBi": task(model=alibi, sharding_stage=2),
        "stage 3, tied": task(model=tied, sharding_stage=3),
    }
    one, one_alibi, one_tied, *results = train([whole, whole_alibi, whole_tied, *shared.values()], ranks=4)
    found = dict(zip(shared, results, strict=True))
    same(found, {"": one, "ALiBi": one_alibi, "tied": one_tied})
    held = {name: result["moments_here"] for name, result in found.items()}
    assert held["stage 1"] == held["stage 3"] == one["moments_here"] // 4
    assert held["replicas of stage 2"] == one["moments_here"] // 2
