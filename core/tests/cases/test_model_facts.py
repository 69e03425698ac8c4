"""Model files whose facts contradict one another are refused in one line."""

import pytest
from llmperf.accounting.parameters import count_parameters
from llmperf.cases.library import library, read_named
from llmperf.types import Model


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("qwen3_8b", "kv_heads = 8", "kv_heads = 5", "kv_heads: expected a divisor of attention_heads 32, found 5"),
        ("llama2_7b", "attention_heads = 32", "attention_heads = 33", "attention_heads: expected a divisor of hidden"),
        ("qwen3_30b_a3b", "top_k = 8", "top_k = 129",
         "mixture.top_k: expected at most 128 (mixture.experts), found 129"),
        ("qwen3_30b_a3b", "top_k = 8", "top_k = 0", "mixture.top_k: expected at least 1, found 0"),
        ("qwen3_30b_a3b", "top_k", "topk", "mixture: unknown key 'topk'; did you mean 'top_k'?"),
        ("qwen3_30b_a3b", "nominal_active_parameters = 3_000_000_000\n", "",
         "nominal_active_parameters: expected the round figure of active parameters, at most 3"),
        ("llama2_7b", "vocab_size = 32000", "vocab_size = 99999999", "vocab_size: expected at most 16777216, found 9"),
        ("llama2_7b", "rope_theta = 10000.0", "rope_theta = 0.0", "rope_theta: expected more than 1, found 0.0"),
        ("llama2_7b", "norm_eps = 1e-5", "norm_eps = 0.0", "norm_eps: expected more than 0 and less than 1"),
        ("qwen3_32b", "head_width = 128", "head_width = 63", "head_width: expected an even number of channels that"),
        ("chatglm3_6b", "rotated_share = 0.5", "rotated_share = 0.01", "rotated_share: expected an even number of"),
        ("deepseek_v3", "rope_width = 64", "rope_width = 63", "latent.rope_width: expected an even number of channels"),
        ("baichuan2_13b", "normalized_head", "rope_theta = 1e4\nnormalized_head", "rope_theta: expected none with pos"),
        ("deepseek_v3", "dense_layers = 3", "dense_layers = 61", "mixture.dense_layers: expected fewer than 61"),
        ("deepseek_v3", "shared_experts = 1", "shared_width = 8", "mixture.shared_experts: expected 1 or more"),
        ("deepseek_v3", "groups = 8", "groups = 7", "mixture.groups: expected a divisor of 256"),
        ("deepseek_v3", "kv_rank = 512\n", "", "latent"),
        ("deepseek_v3", "[latent]", "[latent]\nrank = 1", "latent: unknown key 'rank'"),
        ("deepseek_v3", "kv_heads = 128", "kv_heads = 128\nhead_width = 128",
         "head_width: expected none, since [latent]"),
        ("gpt_oss_20b", "window = 128\n", "", "window: expected the tokens that a windowed layer sees"),
        ("gpt_oss_20b", '["window", "full"]', '["full"]', "window_pattern: expected at least one 'window'"),
        ("gpt_oss_20b", '["window", "full"]', '["windw", "full"]', "window_pattern[0]: expected one of window, full"),
        ("gpt_oss_20b", '["q", "k", "v", "o"]', '["query"]', "attention_bias[0]: expected one of q, k, v, o"),
        ("deepseek_v3", '"sigmoid"', '"sigmoi"', "mixture.router_score: expected one of softmax, sigmoid"),
        ("llama3_1_8b", "low_frequency = 1.0\n", "", "rope_scaling.low_frequency: expected less than"),
        ("llama3_1_8b", "factor = 8.0", "factor = 0.5", "rope_scaling.factor: expected at least 1, found 0.5"),
        ("chatglm3_6b", "rotated_share = 0.5", "rotated_share = 1.5",
         "rotated_share: expected more than 0 and at most 1"),
        ("llava1_5_7b", "parameters = 303_507_456", "parameters = 0",
         "stated_parts[0].parameters: expected at least 1"),
    ],
)  # fmt: skip
def test_facts_that_do_not_fit_are_refused(tmp_path, name, old, new, message, one_line):
    text, path = library().paths("models")[name].read_text(encoding="utf-8"), tmp_path / "mine.toml"
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with one_line(message, str(path)):
        read_named(path, Model)


@pytest.mark.parametrize("name", library().paths("models"))
def test_round_sizes_of_shipped_models_are_about_those_counted(name):
    model = library().model(name)
    assert len(model.source) > 10
    count = count_parameters(model)
    assert abs(count.total / model.nominal_parameters - 1) < 0.24  # Llama 3.2 1B has 1.24 B
    if model.nominal_active_parameters is not None:
        assert abs(count.active / model.nominal_active_parameters - 1) < 0.17
