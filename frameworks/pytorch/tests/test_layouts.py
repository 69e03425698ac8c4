"""Every way to share a model among ranks trains as one process does: one start of four ranks for all of them."""

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
    }
    shared |= {
        "tensor parallel, replicas": task(tensor_parallel=2),
        "tensor parallel, stage 3": task(tensor_parallel=2, sharding_stage=3),
        "tensor parallel, stage 2, sequence parallel": task(
            tensor_parallel=2, sharding_stage=2, sequence_parallel=True, gradient_checkpointing=True
        ),
        "tensor parallel, stage 1, sequence parallel, bf16": task(
            bf16, tensor_parallel=2, sharding_stage=1, sequence_parallel=True
        ),
    }
    shared |= {
        "stage 2, ALiBi": task(model=alibi, sharding_stage=2),
        "stage 3, tied": task(model=tied, sharding_stage=3),
        "tensor parallel, tied": task(model=tied, tensor_parallel=2, sharding_stage=3),
    }
    one, one_alibi, one_tied, *results = train([whole, whole_alibi, whole_tied, *shared.values()], ranks=4)
    found = dict(zip(shared, results, strict=True))
    same(found, {"": one, "ALiBi": one_alibi, "tied": one_tied})
    held = {name: result["moments_here"] for name, result in found.items()}
    assert held["stage 1"] == held["stage 3"] == one["moments_here"] // 4
    assert held["replicas of stage 2"] == one["moments_here"] // 2


def test_pipelines_train_as_one_process_does(program, train):
    four = {"layers": 4}
    alibi = {**program.BAICHUAN, "position_encoding": "alibi", **four}
    whole = {**task(model=four, micro_batch=8), "ranks": 1}
    whole_alibi = {**task(model=alibi, micro_batch=8), "ranks": 1}
    interleaved = {"pipeline_schedule": "interleaved", "virtual_stages": 2}
    zero_bubble = {"pipeline_schedule": "zero_bubble"}
    both = {"pipeline_parallel": 2, "tensor_parallel": 2}
    pipelines = {
        "1f1b, replicas": task(model=four, pipeline_parallel=2, gradient_checkpointing=True),
        "interleaved, replicas": task(model=four, pipeline_parallel=2, **interleaved),
        "zero bubble": task(model=four, pipeline_parallel=4, **zero_bubble),
        "1f1b, tensor parallel": task(model=four, **both),
        "interleaved, sequence parallel": task(model=four, **both, sequence_parallel=True, **interleaved),
        "zero bubble, bf16": task({"precision": "bf16"}, four, pipeline_parallel=2, **zero_bubble),
        "interleaved, fp16": {**task(model=four, pipeline_parallel=2, **interleaved), "computed_in": "fp16"},
        "zero bubble, ALiBi": task(model=alibi, pipeline_parallel=2, **zero_bubble, virtual_stages=2),
    }
    one, one_alibi, *results = train([whole, whole_alibi, *pipelines.values()], ranks=4)
    same(dict(zip(pipelines, results, strict=True)), {"": one, "ALiBi": one_alibi})
