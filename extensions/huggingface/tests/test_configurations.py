"""Hugging Face configurations: those of shipped models give their facts again; others are refused in one line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from llmperf.accounting.counting import forward_flops
from llmperf.accounting.parameters import count_parameters
from llmperf.cases.library import library
from llmperf.errors import UserError
from llmperf.types import Model
from llmperf_huggingface.export import MODEL_TYPES, huggingface_config
from llmperf_huggingface.importing import Imported, import_config, made
from llmperf_huggingface.reading import model_of

NAMES = sorted(name for name in library().paths("models") if library().model(name).family in MODEL_TYPES)


@pytest.fixture(autouse=True)
def without_counter(monkeypatch):
    """A counter that refuses everything: it would start transformers."""

    def refuse(definition: str) -> None:
        raise UserError("no class")

    monkeypatch.setattr("llmperf_huggingface.counting._counts", refuse)


PUBLISHED = Path(__file__).with_name("published")
QWEN3_30B, CHATGLM3, PHI4, GLM45 = (
    json.loads((PUBLISHED / f"{name}.json").read_text())
    for name in ("qwen3_30b_a3b", "chatglm3_6b", "phi_4", "glm_4_5")
)
"""As published with the models; GLM-4.5 without its layer for a second token."""
NOT_USED = "router_aux_loss_coef = 0.001: a training setting that is not used, llmperf adds no auxiliary loss"
DENSE = {"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16, "num_key_value_heads": 8,
         "num_hidden_layers": 8, "vocab_size": 1000, "max_position_embeddings": 4096}  # fmt: skip
WINDOWED = {**DENSE, "head_dim": 64, "use_sliding_window": True, "sliding_window": 64}


def imported(values, name: str, where: str) -> Imported:
    """What `llmperf models import` makes of a configuration's values."""
    return made(model_of(values, where), name, where)


def facts_of(model: Model, other: Model) -> Model:
    """A model with what a configuration does not have taken from another."""
    return replace(
        model,
        name=other.name,
        title=other.title,
        source=other.source,
        nominal_parameters=other.nominal_parameters,
        nominal_active_parameters=other.nominal_active_parameters,
        stated_parts=other.stated_parts,
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_configuration_of_a_model_gives_its_facts_again(name: str) -> None:
    model = library().model(name)
    found = imported(huggingface_config(model), name, "config.json")
    assert facts_of(found.model, model) == model
    assert found.not_expressed == ()


@pytest.mark.parametrize(("config", "name"), [(QWEN3_30B, "qwen3_30b_a3b"), (CHATGLM3, "chatglm3_6b")])
def test_published_configurations_are_the_shipped_models(config, name) -> None:
    model = library().model(name)
    found = imported(config, name, "config.json")
    assert facts_of(found.model, model) == model
    assert found.not_expressed == ()
    assert found.notes == ((NOT_USED,) if config is QWEN3_30B else ())


def test_nominal_figures_are_counts_to_two_digits() -> None:
    found = imported(QWEN3_30B, "mine", "config.json").model
    assert (found.nominal_parameters, found.nominal_active_parameters) == (31_000_000_000, 3_400_000_000)


def test_what_is_not_expressed_is_listed() -> None:
    config = {**QWEN3_30B, "quantization_config": {"bits": 4}, "novel_attention": {"kind": "x"},
              "num_nextn_predict_layers": 1}  # fmt: skip
    listed = imported(config, "mine", "config.json").not_expressed
    assert listed == (
        "quantization_config = {'bits': 4}",
        "novel_attention = {'kind': 'x'}",
        "num_nextn_predict_layers = 1",
    )


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({"model_type": "qwen2", "max_window_layers": 6}, ("full",) * 6 + ("window",) * 2),
        ({"model_type": "qwen3", "max_window_layers": 4}, ("full",) * 4 + ("window",) * 4),
        ({"model_type": "qwen3", "max_window_layers": 0}, ()),
        ({"model_type": "qwen3", "max_window_layers": 4, "layer_types": ["full_attention", "sliding_attention"] * 4},
         ("full", "window")),
        ({"model_type": "qwen2_moe", "max_window_layers": 4, "num_experts": 4, "num_experts_per_tok": 2,
          "shared_expert_intermediate_size": 64},
         ("window", "full", "window") + ("full",) * 5),
        ({"model_type": "qwen3_moe", "max_window_layers": 4, "num_experts": 4, "num_experts_per_tok": 2}, ()),
    ],
)  # fmt: skip
def test_the_layers_of_qwen_have_windows_as_in_transformers(change, pattern) -> None:
    model = imported({**WINDOWED, **change}, "mine", "config.json").model
    assert (model.window, model.window_pattern) == (64, pattern)


@pytest.mark.parametrize("change", [{"max_window_layers": 8}, {}, {"use_sliding_window": False}])
def test_qwen_without_windowed_layers_has_no_window(change) -> None:
    assert imported({**WINDOWED, "model_type": "qwen3", **change}, "mine", "config.json").model.window is None


def test_other_bounds_of_the_clamped_activation_are_listed() -> None:
    config = huggingface_config(library().model("gpt_oss_tiny"))
    assert imported({**config, "swiglu_limit": 7.0, "swiglu_alpha": 1.702}, "x", "c.json").not_expressed == ()
    listed = imported({**config, "swiglu_limit": 5.0, "swiglu_alpha": 0}, "x", "c.json").not_expressed
    assert listed == ("swiglu_limit = 5.0", "swiglu_alpha = 0")


def test_a_head_width_that_is_left_out_is_that_of_the_class_and_listed() -> None:
    found = imported({**DENSE, "model_type": "qwen3"}, "mine", "config.json")
    assert found.model.head_width == 128
    assert found.notes == ("head_dim: not given, 128 as transformers assumes",)
    config = {**QWEN3_30B, "router_aux_loss_coef": 0.0, "hidden_size": 4096}
    del config["head_dim"]
    assert imported(config, "mine", "config.json").model.query_width == 4096 // 32


def test_greedy_choice_of_experts_has_no_groups() -> None:
    config = {**huggingface_config(library().model("deepseek_v2_lite")), "n_group": 4, "topk_group": 2}
    assert imported(config, "mine", "config.json").model.mixture.groups == 1
    grouped = imported({**config, "topk_method": "group_limited_greedy"}, "mine", "config.json").model
    assert (grouped.mixture.groups, grouped.mixture.top_groups) == (4, 2)
    assert facts_of(imported(huggingface_config(grouped), "mine", "config.json").model, grouped) == grouped


def test_the_language_model_of_a_vision_model_is_imported() -> None:
    text = huggingface_config(library().model("llava1_5_7b"))
    found = imported({"model_type": "llava", "text_config": text, "vision_config": {}}, "mine", "config.json")
    assert count_parameters(found.model).total == 6_738_939_904
    assert found.not_expressed == ("vision_config: only the language model is imported",)


def test_values_that_a_larger_configuration_leaves_out_are_those_of_transformers_and_listed() -> None:
    text = {"model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32,
            "num_hidden_layers": 62, "num_key_value_heads": 16, "query_pre_attn_scalar": 168, "head_dim": 128,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}  # fmt: skip
    found = imported({"model_type": "gemma3", "text_config": text, "vision_config": {}}, "mine", "config.json")
    model = library().model("gemma3_27b")
    assert facts_of(found.model, model) == model
    assert "vocab_size: not given, 262208 as transformers assumes" in found.notes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "model_type: unknown architecture 'gpt2'; it cannot be counted either: no class"),
        ({"model_type": ["qwen3_moe"]}, "model_type: unknown architecture ['qwen3_moe']"),
        ({"model_type": None}, "config.json: expected model_type, found none"),
        ({"rope_scaling": [1]}, "rope_scaling: expected a table, found [1]"),
        ({"rope_parameters": "yarn"}, "rope_parameters: expected a table, found 'yarn'"),
        ({"mlp_only_layers": [3]}, "mlp_only_layers: expected [], since the facts of a model cannot express"),
        ({"decoder_sparse_step": 2}, "decoder_sparse_step: expected 1, since the facts of a model cannot express"),
        ({"num_experts": None}, "num_experts: expected a whole number"),
        ({"num_hidden_layers": 10**12}, "nominal_parameters: expected at most 9007199254740991, found"),
        ({"layer_types": ["full_attention"] * 47}, "layer_types: expected 48 of sliding_attention, full_attention"),
        ({"layer_types": [["full_attention"]] * 48}, "layer_types: expected 48 of sliding_attention, full_attention"),
        ({"hidden_size": "2048"}, "hidden_size: expected a whole number from 1 to 9007199254740991, found '2048'"),
        ({"hidden_size": True}, "hidden_size: expected a whole number from 1 to 9007199254740991, found True"),
        ({"hidden_size": 10**40}, "hidden_size: expected a whole number from 1 to 9007199254740991, found 1000"),
        ({"num_hidden_layers": -1}, "num_hidden_layers: expected a whole number from 1 to 9007199254740991, found -1"),
        (
            {"num_hidden_layers": None},
            "num_hidden_layers: expected a whole number from 1 to 9007199254740991, found none",
        ),
        ({"num_key_value_heads": 5}, "kv_heads: expected a divisor of attention_heads 32, found 5"),
        ({"num_experts_per_tok": 200}, "mixture.top_k: expected at most 128"),
        ({"rms_norm_eps": -1}, "rms_norm_eps: expected a number of at least 0, found -1"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings: expected true or false, found 'no'"),
        ({"hidden_act": "relu"}, "hidden_act: expected 'silu' (qwen3_moe), found 'relu'"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "rope_type: expected default, linear, llama3 or yarn"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": "x"}}, "factor: expected a number of at least 0"),
        (
            {"sliding_window": 64, "use_sliding_window": True, "layer_types": ["window"] * 48},
            "layer_types: expected 48",
        ),
        ({"sliding_window": 64, "use_sliding_window": True, "layer_types": "all"}, "layer_types: expected a list"),
    ],
)
def test_values_that_do_not_fit_are_refused_in_one_line(change, message, one_line):
    with one_line(message):
        imported({**QWEN3_30B, **change}, "mine", "config.json")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"model_type": NaN}', b"[" * 100_000, b"\xff\xfe", b'"text"'])
def test_files_that_are_no_configuration_are_refused_in_one_line(tmp_path, data) -> None:
    path = tmp_path / "config.json"
    for content, message in ((data, r"config\.json"), (b" " * (2**20 + 1) + data, "larger than")):
        path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            import_config(path, "mine")


def test_text_of_a_configuration_does_not_control_the_terminal() -> None:
    listed = imported({**QWEN3_30B, "bad\x1b[31m": "\x1b]0;x\x07"}, "mine", "config.json").not_expressed
    assert len(listed) == 1
    assert listed[0].isprintable()


def test_another_architecture_is_not_suggested() -> None:
    for kind in ("olmo3", "deepseek_v32", "qwen3_next"):
        with pytest.raises(UserError, match=f"unknown architecture '{kind}'") as refused:
            imported({**QWEN3_30B, "model_type": kind}, "mine", "config.json")
        assert "did you mean" not in str(refused.value)


def test_no_shared_expert_has_a_width_of_0() -> None:
    found = imported({**QWEN3_30B, "shared_expert_intermediate_size": 0}, "mine", "config.json")
    assert found.model == imported(QWEN3_30B, "mine", "config.json").model
    assert found.not_expressed == ()


@pytest.mark.parametrize(("config", "total"), [(PHI4, 14_659_507_200), (GLM45, 352_797_814_784)])
def test_phi_4_and_glm_4_5_are_counted(config, total) -> None:
    found = imported(config, "mine", "config.json")
    assert found.not_expressed == ()
    assert count_parameters(found.model).total == total


@pytest.mark.slow
@pytest.mark.parametrize("config", [PHI4, GLM45, {**GLM45, "use_qk_norm": False, "attention_bias": False},
                                    {**PHI4, "tie_word_embeddings": True}, QWEN3_30B])  # fmt: skip
def test_parameters_and_flops_are_those_of_transformers(config) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = imported(config, "mine", "config.json").model
    layers = {"num_hidden_layers": config.get("first_k_dense_replace", 0) + 1}  # fewer of equal layers, for speed
    small = transformers.AutoConfig.for_model(**{**config, **layers, "rope_scaling": None})
    with torch.device("meta"):
        theirs = transformers.AutoModelForCausalLM.from_config(small)
    ours = replace(model, layers=layers["num_hidden_layers"])
    assert count_parameters(ours).total == sum(weight.numel() for weight in theirs.parameters())
    experts, active = config.get("n_routed_experts", config.get("num_experts", 1)), config.get("num_experts_per_tok", 1)
    products = sum(
        2 * weight.numel() * (active / experts if ".experts." in name else 1)
        for name, weight in theirs.named_parameters()
        if weight.ndim > 1 and "embed_tokens" not in name
    )
    if config["tie_word_embeddings"]:
        products += 2 * config["vocab_size"] * config["hidden_size"]
    flops = forward_flops(ours, 1, "full")
    assert sum(flops.values()) - flops.get("attention", 0) == pytest.approx(products, rel=1e-3)
