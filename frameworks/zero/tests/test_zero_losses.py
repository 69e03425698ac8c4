"""ZeRO of every stage trains as one plain process does."""

import shutil

import pytest

pytestmark = pytest.mark.slow

WIDE = {"hidden_size": 128, "intermediate_size": 1024, "vocab_size": 1024}
"""Matrices over 100,000 elements: smaller ones DeepSpeed leaves whole at stage 3."""
STAGES = (0, 1, 2, 3)
BF16 = {"precision": "bf16"}


def zero(stage, model=None, contract=None, options=None, **tuning):
    return {
        "framework": "zero",
        "model": model or {},
        "contract": contract or {},
        "options": options or {},
        "tuning": {"sharding_stage": stage, **tuning},
    }


def plain(model=None, contract=None, **tuning):
    return {"framework": "pytorch", "model": model or {}, "contract": contract or {}, "tuning": tuning}


def same(found, expected, within=1e-4):
    assert found["losses"] == pytest.approx(expected["losses"], abs=within)
    assert found["sequences"] == pytest.approx(expected["sequences"], abs=within)


@pytest.fixture(scope="module")
def curves(program, train):
    """One process for reference, and everything on two ranks in one go."""
    alibi = {**program.BAICHUAN, "position_encoding": "alibi"}
    tied = {"tied_embeddings": True}
    whole = {
        "llama": plain(micro_batch=4),
        "alibi": plain(alibi, micro_batch=4),
        "tied": plain(tied, micro_batch=4),
        "wide": plain(WIDE, micro_batch=4),
    }
    parts = {"ddp": plain(micro_batch=2)}
    for stage in STAGES:
        parts[f"llama {stage}"] = zero(stage, micro_batch=2)
        parts[f"accumulated {stage}"] = zero(stage, micro_batch=1)
        parts[f"checkpointed {stage}"] = zero(stage, micro_batch=1, gradient_checkpointing=True)
        parts[f"bf16 {stage}"] = zero(stage, contract=BF16, micro_batch=2)
        parts[f"wide {stage}"] = zero(stage, WIDE, micro_batch=1, gradient_checkpointing=True)
    for stage in (1, 2, 3):
        small = {"overlap_comm": stage < 3, "reduce_bucket_size": 5000}
        small |= {"sub_group_size": 20_000, "prefetch_bucket_size": 1000} if stage == 3 else {}
        parts[f"overlapped {stage}"] = zero(stage, options=small, micro_batch=1)
        parts[f"summed {stage}"] = zero(stage, contract=BF16, micro_batch=1, accumulation_dtype="fp32")
    for stage in (1, 3):
        parts[f"alibi {stage}"] = zero(stage, alibi, micro_batch=2, gradient_checkpointing=True)
        parts[f"tied {stage}"] = zero(stage, tied, micro_batch=2)
    results = dict(zip(whole, train(list(whole.values()), ranks=1), strict=True))
    return results | dict(zip(parts, train(list(parts.values()), ranks=2), strict=True))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("way", ["llama", "accumulated", "checkpointed"])
def test_every_stage_equals_one_plain_process(curves, way, stage):
    same(curves[f"{way} {stage}"], curves["llama"])
    if stage and way == "llama":
        assert curves[f"llama {stage}"]["norms"] == pytest.approx(curves["llama"]["norms"], rel=1e-3)


@pytest.mark.parametrize(
    ("way", "plain"),
    [("ddp", "llama"), *((f"overlapped {stage}", "llama") for stage in (1, 2, 3)),
     *((f"{model} {stage}", model) for model in ("alibi", "tied") for stage in (1, 3))],
)  # fmt: skip
def test_overlap_small_buckets_and_other_models_change_nothing(curves, way, plain):
    same(curves[way], curves[plain])


@pytest.mark.parametrize("stage", STAGES)
def test_all_stages_agree_in_bf16(curves, stage):
    same(curves[f"bf16 {stage}"], curves["bf16 1"], within=2e-3)
    same(curves[f"bf16 {stage}"], curves["llama"], within=0.02)
    if stage:  # added up in float32
        same(curves[f"summed {stage}"], curves["llama"], within=0.02)


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_stage_shards_is_sharded(curves, stage):
    found, whole = curves[f"wide {stage}"], curves["wide"]["parameters_here"]
    same(found, curves["wide"])
    shared = found["moments_here"] / curves["wide"]["moments_here"]
    assert shared == pytest.approx(0.5 if stage else 1.0, rel=0.01)
    assert (found["parameters_here"] < whole / 2) == (stage == 3)


def test_tokens_are_those_of_this_rank(curves):
    assert curves["llama 1"]["tokens"] == curves["accumulated 3"]["tokens"] == 6 * 2 * 64


@pytest.mark.long
@pytest.mark.timeout(500)
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ to compile DeepSpeedCPUAdam")
def test_deepspeeds_own_optimizer_equals_torchs_though_a_killed_run_left_a_lock(train, tmp_path_factory):
    """Compiles DeepSpeedCPUAdam, which takes a minute."""
    tasks = [zero(stage, options={"optimizer": "deepspeed"}, micro_batch=2) for stage in (1, 3)]
    folder = tmp_path_factory.mktemp("extensions")
    (folder / "cpu_adam").mkdir()
    (folder / "cpu_adam" / "lock").touch()
    (expected,) = train([plain(micro_batch=4)], ranks=1)
    for one in train(tasks, ranks=2, TORCH_EXTENSIONS_DIR=str(folder)):
        same(one, expected)
