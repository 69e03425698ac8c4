"""Small models of each kind train, alone and shared among ranks: one start of ranks for all of them."""

import pytest
from llmperf import library
from llmperf.files.json_files import builtins
from llmperf_testing import transformers_reference

pytestmark = pytest.mark.slow

KINDS = (
    "llama3_tiny", "qwen3_tiny", "gemma3_tiny", "mixtral_tiny", "qwen3_moe_tiny", "gpt_oss_tiny", "deepseek_v3_tiny",
)  # fmt: skip
MIXTURES = KINDS[3:]
STEPS, SEQ_LEN = 4, 48


def task(name, framework="pytorch", tuning=None, **contract):
    optimizer = {"lr": 1e-3, "clip_norm": 0.5}
    contract = {"steps": STEPS, "model": name, "seq_len": SEQ_LEN, "optimizer": optimizer, **contract}
    tuning = {"micro_batch": 1, **(tuning or {})}
    model = builtins(library().model(name))
    return {"framework": framework, "model": model, "contract": contract, "tuning": tuning}


def test_first_losses_are_those_of_transformers_in_float64(program, train):
    tasks = {(name, framework): task(name, framework) for name in KINDS for framework in ("pytorch", "zero")}
    tasks |= {(name, "balanced"): task(name, routing="balanced") for name in MIXTURES}
    tasks |= {("gpt_oss_tiny", "skewed"): task("gpt_oss_tiny", routing="skewed")}
    results = train(list(tasks.values()), ranks=1)
    learned = {name: transformers_reference.trajectory(program.make_plan(task(name)), STEPS).losses for name in KINDS}
    for (name, variant), result in zip(tasks, results, strict=True):
        forced = variant in ("balanced", "skewed")
        plan = program.make_plan(task(name, **({"routing": variant} if forced else {})))
        expected = transformers_reference.trajectory(plan, STEPS).losses if forced else learned[name]
        assert result["losses"] == pytest.approx(expected, abs=1e-5), (name, variant)
        assert result["losses"][-1] < result["losses"][0]


def test_mixtures_shared_among_ranks_train_as_one_process_does(program, train):
    alone = {name: {**task(name), "ranks": 1} for name in MIXTURES}
    forced = {**task("gpt_oss_tiny", routing="skewed"), "ranks": 1}
    stage_3, recomputed = {"sharding_stage": 3}, {"sharding_stage": 3, "gradient_checkpointing": True}
    shared = {
        ("mixtral_tiny", "replicas"): task("mixtral_tiny"),
        ("qwen3_moe_tiny", "FSDP2"): task("qwen3_moe_tiny", tuning=recomputed),
        ("deepseek_v3_tiny", "ZeRO-3"): task("deepseek_v3_tiny", "zero", tuning=recomputed),
        ("gpt_oss_tiny", "ZeRO-3"): task("gpt_oss_tiny", "zero", tuning=stage_3),
        ("gpt_oss_tiny", "FSDP2, bf16"): task("gpt_oss_tiny", tuning={"sharding_stage": 2}, precision="bf16"),
        ("skewed", "FSDP2"): task("gpt_oss_tiny", tuning=stage_3, routing="skewed"),
    }
    results = train([*alone.values(), forced, *shared.values()], ranks=2)
    expected = dict(zip([*alone, "skewed"], results, strict=False))
    for (name, layout), result in zip(shared, results[len(expected) :], strict=True):
        tolerance = 0.02 if "16" in layout else 1e-5
        assert result["losses"] == pytest.approx(expected[name]["losses"], abs=tolerance), (name, layout)
        if "16" not in layout:
            assert result["norms"] == pytest.approx(expected[name]["norms"], abs=3e-5), (name, layout)
    assert expected["skewed"]["losses"] != expected["gpt_oss_tiny"]["losses"]
    tokens, top_k, layers = STEPS * 4 * SEQ_LEN, 2, 4
    assert sum(map(sum, expected["mixtral_tiny"]["expert_tokens"])) == tokens * top_k * layers
    recomputed_load = results[len(expected) + 1]["expert_tokens"]  # of one of two ranks
    assert [sum(layer) for layer in recomputed_load] == [tokens // 2 * top_k] * layers
