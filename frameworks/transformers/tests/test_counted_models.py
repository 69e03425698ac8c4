"""Architectures that facts do not express: FLOPs are counted, and transformers trains them."""

import json
import re
import shlex
from pathlib import Path

import llmperf
import pytest
from llmperf.accounting.counting import forward_flops
from llmperf.cases.library import library, read_named
from llmperf.types import Model
from llmperf_huggingface import counter
from llmperf_huggingface.export import huggingface_config

pytestmark = pytest.mark.slow

SIZES = {
    "vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "max_position_embeddings": 1024, "pad_token_id": None,
}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
LOCAL = {"num_local_experts": 8, "num_experts_per_tok": 2}
SECTION = (Path(__file__).parents[3] / "docs" / "models.md").read_text().partition("### Other architectures")[2]
QWEN3_NEXT = json.loads(re.findall(r"```json\n(.*?)```", SECTION, re.DOTALL)[0])
COMMANDS = re.findall(r"```console\n(.*?)```", SECTION, re.DOTALL)[0].splitlines()
MAMBA = {"mamba_num_heads": 4, "mamba_head_dim": 32, "ssm_state_size": 16, "n_groups": 2, "chunk_size": 128}
OTHERS = {
    "qwen3_next": QWEN3_NEXT,
    "nemotron_h": {**MAMBA, "head_dim": 16, "hybrid_override_pattern": "M-M*"},
    "mamba2": {"num_heads": 4, "head_dim": 32, "state_size": 16, "n_groups": 1, "expand": 2, "chunk_size": 128},
    "minimax_m2": {**LOCAL, "head_dim": 16, "rotary_dim": 16},
    "deepseek_v32": {
        **EXPERTS, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 32, "qk_rope_head_dim": 16,
        "qk_nope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 8, "n_group": 2, "topk_group": 1,
        "first_k_dense_replace": 1, "index_topk": 64, "index_n_heads": 4, "index_head_dim": 32,
    },
    "llama4_text": {**LOCAL, "num_experts_per_tok": 1, "intermediate_size_mlp": 128, "head_dim": 16},
    "granitemoe": LOCAL, "olmo3": {}, "gpt2": {}, "falcon": {}, "phi": {}, "gpt_neox": {}, "bloom": {}, "opt": {},
    "bart": {"d_model": 64, "decoder_layers": 4, "decoder_attention_heads": 4, "decoder_ffn_dim": 128},
}  # fmt: skip
ATTENTION = {"qwen3_next": 256, "nemotron_h": 256, "mamba2": 0, "deepseek_v32": 2592}
"""FLOPs per token and token of context, 4 x layers with attention x heads x width; DeepSeek-V3.2 has an indexer too."""
RECURRENCES = ["recurrences are counted by the products of their chunks alone"]
CAVEATS = {
    "qwen3_next": RECURRENCES, "nemotron_h": RECURRENCES, "mamba2": RECURRENCES,
    "deepseek_v32": ["sparse attention is counted over all pairs"],
    "olmo3": ["windowed attention is counted over all pairs"],
    "llama4_text": ["experts that a token does not pass are counted, as the class computes them"],
}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["llama3_tiny", "qwen3_tiny", "qwen3_moe_tiny", "mixtral_tiny", "gemma3_tiny", "gpt_oss_tiny"]
)
def test_counts_of_expressed_architectures_are_those_of_their_facts(name):
    model = library().model(name)
    found, count = counter.counted(huggingface_config(model)), llmperf.count_parameters(model)
    ours = forward_flops(model, 4096, "full")
    attention = ours.pop("attention")
    assert (found["parameters"], found["active_parameters"]) == (count.total, count.active)
    assert found["embedding_parameters"] == count.looked_up
    assert found["forward_flops"] == pytest.approx(sum(ours.values()), rel=0.01)
    assert found["attention_flops"] * 4096 == pytest.approx(attention, rel=0.01)
    assert all(found["facts"][key] == getattr(model, key) for key in ("layers", "kv_heads", "norm_eps", "vocab_size"))


@pytest.mark.parametrize("name", OTHERS)
def test_other_architectures_are_counted(name):
    found = counter.counted({**SIZES, **OTHERS[name], "model_type": name})
    plain = 2 * (found["active_parameters"] - found["embedding_parameters"])
    assert found["attention_flops"] == pytest.approx(ATTENTION.get(name, 1024), abs=1)
    assert found["caveats"] == CAVEATS.get(name, [])
    if CAVEATS.get(name) == RECURRENCES:  # chunks of small models take more than their weights
        assert plain < found["forward_flops"] < 3 * plain
    else:  # biases and norms are no products
        assert found["forward_flops"] == pytest.approx(plain, rel=0.03)


@pytest.mark.long
def test_a_hundred_architectures_are_counted():
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    ratios = {}
    for name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        try:
            found = counter.counted({"model_type": name, "num_hidden_layers": 2})
        except Exception:  # many classes have no defaults that fit together
            continue
        plain = 2 * (found["active_parameters"] - found["embedding_parameters"])
        ratios[name] = found["forward_flops"] / plain, found["caveats"]
    assert len(ratios) >= 140
    assert {name for name, (ratio, caveats) in ratios.items() if abs(ratio - 1) > 0.03 and not caveats} == {"hrm_text"}


def test_a_counted_model_trains_alike_by_ddp_fsdp2_and_deepspeed(ran, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hostile = {"auto_map": {"AutoConfig": "evil--evil.Config"}, "_attn_implementation": "evil/kernels"}
    (tmp_path / "config.json").write_text(json.dumps({**QWEN3_NEXT, **hostile, "num_hiden_layers": 4}))
    said = ran(0, "models", "import", "config.json", "-o", "mine.toml").err
    assert "unknown architecture 'qwen3_next': FLOPs are counted, torch" in said
    assert "num_hiden_layers: no key of Qwen3NextConfig; nearest: num_hidden_layers" in said
    model = read_named(tmp_path / "mine.toml", Model)
    assert "evil" not in model.counted.definition
    shown, planned, _, estimated = (ran(0, *shlex.split(command)[1:]).out for command in COMMANDS[1:])
    assert "3 x 446,976" in shown
    assert RECURRENCES[0] in planned
    assert "the trainer's own code on tensors without data" in estimated
    words, losses = ["run", "default", "--framework", "transformers", "--set", "model=./mine.toml"], []
    for stage, engine in ((0, "fsdp2"), (3, "fsdp2"), (3, "deepspeed")):
        settings = [f"sharding_stage={stage}", f"framework.engine={engine}", "steps=4", "warmup_steps=1"]
        out = f"runs-{stage}-{engine}"
        ran(0, *words, *(word for each in settings for word in ("--set", each)), "--out", out)
        (path,) = tmp_path.glob(f"{out}/*/result.json")
        result = json.loads(path.read_bytes())
        assert all(mfu["value"] and RECURRENCES[0] in mfu["leaves_out"] for mfu in result["mfu"])
        losses.append([point["loss"] for point in result["loss_curve"]])
    ddp, *others = losses
    assert len(ddp) == 4
    assert all(other == pytest.approx(ddp, abs=1e-5) for other in others)
    ran(0, "validate", path)


@pytest.mark.parametrize(
    "framework", ["pytorch", "zero", "lora", "paddle", "megatron_deepspeed", "megatron_core", "torchtitan"]
)
def test_other_frameworks_refuse_a_counted_model_in_one_line(framework, ran, tmp_path):
    counts = {"parameters": 9, "active_parameters": 9, "embedding_parameters": 1, "forward_flops": 16.0}
    counted = {"definition": "{}", "built_by": "transformers", **counts, "attention_flops": 1.0, "counted_by": "hand"}
    facts = {"title": "mine", "family": "mamba2", "nominal_parameters": 9, "vocab_size": 512, "hidden_size": 64}
    facts |= {"layers": 4, "norm_eps": 1e-5, "position_encoding": "defined", "source": "hand"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in facts.items()]
    lines += ["[counted]", *(f"{key} = {json.dumps(value)}" for key, value in counted.items())]
    (tmp_path / "mine.toml").write_text("\n".join(lines))
    words = ["plan", "default", "--framework", framework, "--set", f"model={tmp_path}/mine.toml", "--json"]
    (problem,) = json.loads(ran(2, *words).out)["problems"]
    assert problem["message"].startswith(f"{framework} builds models from facts, and mine is a counted model")
    assert problem["message"].endswith("nearest: --framework transformers")


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
