"""Adapters train the same on one rank and on two, by DDP and by every ZeRO stage; what is frozen stays as it was."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

LORA = {"rank": 4, "alpha": 16, "dropout": 0.0, "target_modules": ["q_proj", "v_proj"]}
TRAINED = 2 * 4 * ((64 + 64) + (64 + 32))
"""Two layers, rank 4, queries 64 to 64 and values 64 to 32."""
WIDE = {"hidden_size": 128, "intermediate_size": 1024, "vocab_size": 1024}
"""Matrices over 100,000 elements: smaller ones DeepSpeed leaves whole at stage 3."""
FAST = {"lr": 3e-2, "schedule": "cosine", "warmup_steps": 2, "clip_norm": 0.5}
STAGES = (1, 2, 3)


def task(stage=0, model=None, contract=None, options=None, data=None, lora=None, **tuning):
    return {
        "framework": "lora",
        "model": model or {},
        "contract": {"optimizer": FAST, "lora": LORA | (lora or {}), **(contract or {})},
        "options": options or {},
        "data": data or {},
        "tuning": {"sharding_stage": stage, **{"micro_batch": 2, **tuning}},
    }


def same(found, expected, within=1e-4):
    assert found["losses"] == pytest.approx(expected["losses"], abs=within)
    assert found["sequences"] == pytest.approx(expected["sequences"], abs=within)


@pytest.fixture(scope="module")
def found(train, program, mmlu, samsum, checkpoint, tmp_path_factory):
    """Everything on one rank in one go, and everything on two."""
    padded = {
        "contract": {"dataset": "samsum", "packing": "padded", "seq_len": 96, "steps": 6},
        "data": {"path": str(samsum)},
    }
    bf16, bits = {"precision": "bf16"}, {"dropout": 0.5}
    asked = {"mmlu": str(mmlu), "mmlu_shots": 1, "mmlu_batch": 5}
    slowly, longer = {"optimizer": FAST | {"lr": 1e-2}}, {"optimizer": FAST | {"lr": 2e-2}, "steps": 60}
    alibi, packed = {**program.BAICHUAN, "position_encoding": "alibi"}, {"target_modules": ["W_pack", "o_proj"]}
    every = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

    def run_dir(name):
        folder = tmp_path_factory.mktemp(name)
        return {"run_dir": str(folder)}

    saving = {"options": {**asked, "save_adapter": True}, "evaluate_first": False}
    whole = {
        "whole": task(micro_batch=4, options={**asked, "save_adapter": True}) | run_dir("whole"),
        "accumulated": task(micro_batch=1),
        "checkpointed": task(micro_batch=4, gradient_checkpointing=True),
        "before": task(micro_batch=4, options=asked) | {"evaluate_first": True},
        "padded": task(micro_batch=4, **padded),
        "padded accumulated": task(micro_batch=1, **padded),
        "pretrained": task(options={"base_weights": str(checkpoint)}, micro_batch=4),
        "wide": task(model=WIDE, micro_batch=4),
        "everywhere": task(contract=slowly, lora={"target_modules": every}, micro_batch=4),
        "learning": task(
            model={"vocab_size": 64}, contract=longer, lora={"target_modules": every, "rank": 8}, micro_batch=4
        ),
        "baichuan": task(0, alibi, lora=packed, micro_batch=4),
        "dropped": task(lora=bits, micro_batch=4),
        "dropped again": task(lora=bits, micro_batch=4),
        "dropped, another seed": task(lora=bits, contract={"seed": 1}, micro_batch=4),
        "bf16": task(contract=bf16, micro_batch=4),
    }
    parts = {
        "ddp": task(options=saving["options"]) | run_dir("ddp"),
        "padded ddp": task(micro_batch=1, **padded),
        "everywhere ddp": task(contract=slowly, lora={"target_modules": every}),
        "bf16 ddp": task(contract=bf16),
        "bf16 1": task(1, contract=bf16),
        "pretrained ddp": task(options={"base_weights": str(checkpoint)}),
        "pretrained 3": task(3, options={"base_weights": str(checkpoint)}),
        "baichuan ddp": task(0, alibi, lora=packed, micro_batch=1, gradient_checkpointing=True),
        "baichuan 3": task(3, alibi, lora=packed),
        "padded 2": task(2, **padded),
    }
    for stage in STAGES:
        parts[f"zero {stage}"] = task(stage, options=saving["options"]) | run_dir(f"zero{stage}")
    for stage in (1, 3):
        parts[f"accumulated {stage}"] = task(stage, micro_batch=1)
        parts[f"wide {stage}"] = task(stage, WIDE, micro_batch=1, gradient_checkpointing=True)
    results = dict(zip(whole, train(list(whole.values()), ranks=1), strict=True))
    results |= dict(zip(parts, train(list(parts.values()), ranks=2), strict=True))
    results["folders"] = {name: one["run_dir"] for name, one in (whole | parts).items() if "run_dir" in one}
    return results


def test_training_lowers_the_loss(found):
    losses = found["learning"]["losses"]
    assert losses[0] > 4.1
    assert losses[-1] < 3.9


@pytest.mark.parametrize("way", ["ddp", "zero 1", "zero 2", "zero 3", "accumulated 1", "accumulated 3"])
def test_two_ranks_equal_one(found, way):
    same(found[way], found["whole"])
    assert found[way]["norms"] == pytest.approx(found["whole"]["norms"], rel=1e-3)


@pytest.mark.parametrize("stage", [1, 3])
def test_sharded_wide_models_equal_one_process(found, stage):
    one = found[f"wide {stage}"]
    same(one, found["wide"])
    assert (one["held_here"] < found["wide"]["held_here"] / 2) == (stage == 3)


@pytest.mark.parametrize(
    ("way", "one"),
    [("accumulated", "whole"), ("checkpointed", "whole"), ("baichuan ddp", "baichuan"), ("baichuan 3", "baichuan"),
     ("everywhere ddp", "everywhere"), ("pretrained ddp", "pretrained"), ("pretrained 3", "pretrained"),
     ("padded accumulated", "padded"), ("padded ddp", "padded"), ("padded 2", "padded")],
)  # fmt: skip
def test_other_adapters_weights_and_data_train_the_same_in_each_way(found, way, one):
    same(found[way], found[one])
    assert found[way]["frozen_unchanged"]


def test_every_projection_can_have_adapters(found):
    assert {name.split(".")[-4] for name in found["baichuan"]["names"]} == {"W_pack", "o_proj"}
    assert len(found["everywhere"]["names"]) == 2 * 2 * 7


@pytest.mark.parametrize("way", ["whole", "ddp", "zero 1", "zero 2", "zero 3", "wide 3", "bf16 ddp", "bf16 1"])
def test_frozen_weights_have_no_gradient_no_state_and_do_not_change(found, way):
    one = found[way]
    assert one["frozen_unchanged"]
    assert one["frozen_gradients"] == 0
    assert all(".lora_" in name for name in one["names"])
    assert one["trained"] == TRAINED or "wide" in way  # as the core counts
    assert one["moments_here"] == one["trained"] if way in ("whole", "ddp", "bf16 ddp") else one["trained"] / 2


def test_base_weights_come_from_the_checkpoint_and_padding_is_not_counted(found):
    assert abs(found["pretrained"]["losses"][0] - found["whole"]["losses"][0]) > 1e-3
    assert all(0 < tokens < 4 * 96 for tokens in found["padded"]["tokens"])
    assert len(set(found["padded"]["tokens"])) > 1


def test_bf16_keeps_frozen_weights_in_16_bits(found):
    same(found["bf16"], found["whole"], within=0.03)
    same(found["bf16 ddp"], found["bf16"], within=0.02)
    same(found["bf16 1"], found["bf16"], within=0.03)
    assert found["bf16"]["dtypes"] == [["torch.bfloat16", False], ["torch.float32", True]]
    assert found["whole"]["dtypes"] == [["torch.float32", False], ["torch.float32", True]]


def test_dropout_is_fixed_by_the_seed(found):
    assert found["dropped"]["losses"] == found["dropped again"]["losses"]
    assert found["dropped"]["losses"][2:] != pytest.approx(found["whole"]["losses"][2:], abs=1e-6)
    assert found["dropped"]["losses"] != found["dropped, another seed"]["losses"]


def test_a_saved_adapter_reloaded_and_merged_gives_the_same_logits(found):
    assert found["whole"]["effect"] > 1e-3
    assert found["whole"]["reload"] < 1e-5
    assert found["whole"]["merge"] < 1e-5


@pytest.mark.parametrize("way", ["ddp", "zero 1", "zero 2", "zero 3"])
def test_every_layout_saves_the_same_adapter(found, way):
    from safetensors.torch import load_file

    one, whole = (load_file(f"{found['folders'][name]}/adapter/adapter_model.safetensors") for name in (way, "whole"))
    assert one.keys() == whole.keys()
    assert "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" in whole
    for name, tensor in whole.items():
        assert one[name].shape == tensor.shape
        assert (one[name] - tensor).abs().max() < 2e-3, name


def test_mmlu_without_adapters_is_mmlu_before_training(found):
    """Measured before the first step, and after the last one with the adapters switched off."""
    first, last = found["before"]["first"], found["before"]["evaluation"]
    assert first["mmlu_after"] == first["mmlu_before"] == last["mmlu_before"]
    assert {name.split("/")[0] for name in last} == {"mmlu_before", "mmlu_after"}
    assert len(last) == 2 * (1 + 3)
    assert found["before"]["losses"] == found["whole"]["losses"]


@pytest.mark.parametrize("way", ["ddp", "zero 1", "zero 2", "zero 3"])
def test_ranks_share_the_questions_and_come_to_the_same_accuracy(found, way):
    expected, given = found["whole"]["evaluation"], found[way]["evaluation"]
    assert given.keys() == expected.keys()
    assert {name: value for name, value in given.items() if "before" in name} == {
        name: value for name, value in expected.items() if "before" in name
    }
    assert given["mmlu_after"] == pytest.approx(expected["mmlu_after"], abs=1 / 36 + 1e-9)
