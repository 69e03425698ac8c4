"""Adapters on today's models train: grouped and latent attention, biases, sinks, mixtures; one start of ranks."""

import pytest

pytestmark = pytest.mark.slow

EVERY = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LATENT = ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
TARGETS = {
    "llama3_tiny": EVERY, "gemma3_tiny": EVERY, "qwen3_moe_tiny": EVERY[:4], "gpt_oss_tiny": EVERY[:4],
    "deepseek_v3_tiny": LATENT,
}  # fmt: skip


def task(name, lr=3e-3, **tuning):
    from llmperf import library
    from llmperf.files.json_files import builtins

    lora = {"rank": 4, "alpha": 16, "dropout": 0.0, "target_modules": TARGETS[name]}
    contract = {"model": name, "steps": 6, "seq_len": 48, "optimizer": {"lr": lr}, "lora": lora}
    return {
        "framework": "lora",
        "model": builtins(library().model(name)),
        "contract": contract,
        "tuning": {"micro_batch": 2, **tuning},
    }


def test_adapters_train_as_counted_and_frozen_weights_stay(program, train):
    from llmperf.accounting.parameters import count_parameters, lora_parameters

    alone = {(name, lr): {**task(name, lr), "ranks": 1} for name in TARGETS for lr in (3e-3, 0.0)}
    shared = {name: task(name, sharding_stage=2, micro_batch=1) for name in ("gpt_oss_tiny", "deepseek_v3_tiny")}
    results = train([*alone.values(), *shared.values()], ranks=2)
    found = dict(zip(alone, results, strict=False))
    for name in TARGETS:
        spec, result = program.make_spec(task(name)), found[name, 3e-3]
        assert result["losses"][0] == found[name, 0.0]["losses"][0], name
        assert sum(result["losses"][-2:]) < sum(found[name, 0.0]["losses"][-2:]) - 0.01, name
        assert result["frozen_unchanged"], name
        assert result["frozen_gradients"] == 0, name
        assert result["trained"] == lora_parameters(spec.model, spec.contract.lora), name
        assert result["frozen"] == count_parameters(spec.model).total, name
    for name, result in zip(shared, results[len(alone) :], strict=True):
        assert result["losses"] == pytest.approx(found[name, 3e-3]["losses"], abs=1e-4), name
