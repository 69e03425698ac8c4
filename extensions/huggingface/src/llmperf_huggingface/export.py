"""The Hugging Face configuration of a model: the values of a `config.json`, from which transformers builds it."""

from __future__ import annotations

import json
from typing import Any

from llmperf.errors import UserError, unknown
from llmperf.types import Mixture, Model, RopeScaling

from llmperf_huggingface.configuration_keys import configuration_types
from llmperf_huggingface.counting import cleaned

MODEL_TYPES = {
    **{name: name for name in ("llama", "qwen2", "qwen3", "qwen3_moe", "qwen2_moe", "gpt_oss", "mixtral")},
    **{name: name for name in ("deepseek_v2", "deepseek_v3")},
    "gemma3": "gemma3_text",
    "chatglm": "glm",
}
"""`model_type` by family; GLM is ChatGLM3's architecture with gate and up projection in one matrix."""
EXPERT_KEYS = {"gpt_oss": "num_local_experts", "mixtral": "num_local_experts"}
"""The key for the number of routed experts, `n_routed_experts` in latent families, else `num_experts`."""
GROUPED = "group_limited_greedy"
"""Method of choosing experts of some groups; plain `greedy` looks at no groups."""
WINDOWS = {"window": "sliding_attention", "full": "full_attention"}


def huggingface_config(model: Model) -> dict[str, Any]:
    """The configuration of a model, with its `model_type`; UserError for a family without a class of transformers."""
    if model.counted is not None:
        try:
            return dict(cleaned(json.loads(model.counted.definition)))
        except (ValueError, RecursionError):
            raise UserError("model.counted.definition: expected a JSON object") from None
    if model.family not in MODEL_TYPES:
        raise unknown("model.family", "family of transformers", model.family, MODEL_TYPES)
    config: dict[str, Any] = {
        "model_type": MODEL_TYPES[model.family],
        "vocab_size": model.vocab_size,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.attention_heads,
        "num_key_value_heads": model.kv_heads,
        "hidden_activation" if model.family == "gemma3" else "hidden_act": configuration_types().activations[
            model.activation
        ],
        "max_position_embeddings": model.max_positions,
        "rms_norm_eps": model.norm_eps,
        "initializer_range": model.initializer_std,
        "tie_word_embeddings": model.tied_embeddings,
        "rope_theta": model.rope_theta,
        "attention_dropout": 0.0,
        "use_cache": False,
        # identities of tokens, which a small vocabulary need not have
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    if model.latent is None and model.family != "qwen2_moe":
        config["head_dim"] = model.query_width
    if model.rope_scaling is not None:
        config["rope_scaling"] = _scaling(model.rope_scaling)
    elif model.family == "gpt_oss":  # whose class stretches positions if it is not told otherwise
        config["rope_scaling"] = {"rope_type": "default"}
    if model.rotated_share != 1:
        config["partial_rotary_factor"] = model.rotated_share
    return config | _attention(model) | ({} if model.mixture is None else _mixture(model, model.mixture))


def _attention(model: Model) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if model.family == "qwen2_moe":
        config["qkv_bias"] = bool(model.attention_bias)
    elif model.family not in ("mixtral", "qwen2"):
        config["attention_bias"] = bool(model.attention_bias)
    if model.window is not None:
        pattern = model.window_pattern or ("window",)
        config |= {"sliding_window": model.window} | ({"use_sliding_window": True} if "qwen" in model.family else {})
        config["layer_types"] = [WINDOWS[pattern[layer % len(pattern)]] for layer in range(model.layers)]
    if model.window_rope_theta is not None:
        config["rope_local_base_freq"] = model.window_rope_theta
    if model.query_scale_width is not None:
        config["query_pre_attn_scalar"] = model.query_scale_width
    if (latent := model.latent) is not None:
        config |= {
            "q_lora_rank": latent.q_rank,
            "kv_lora_rank": latent.kv_rank,
            "qk_rope_head_dim": latent.rope_width,
            "qk_nope_head_dim": latent.nope_width,
            "v_head_dim": latent.value_width,
        }
    return config


def _mixture(model: Model, mixture: Mixture) -> dict[str, Any]:
    config: dict[str, Any] = {"num_experts_per_tok": mixture.top_k}
    if model.latent is not None:
        return config | {
            "n_routed_experts": mixture.experts,
            "moe_intermediate_size": mixture.expert_width,
            "n_shared_experts": mixture.shared_experts,
            "first_k_dense_replace": mixture.dense_layers,
            "n_group": mixture.groups,
            "topk_group": mixture.top_groups,
            "norm_topk_prob": mixture.normalized_scores,
            "routed_scaling_factor": mixture.score_scale,
            "scoring_func": mixture.router_score,
            "topk_method": "noaux_tc" if mixture.balanced_by_bias else GROUPED if mixture.groups > 1 else "greedy",
        }
    if model.family in EXPERT_KEYS:
        return config | {EXPERT_KEYS[model.family]: mixture.experts, "intermediate_size": mixture.expert_width}
    config |= {
        "num_experts": mixture.experts,
        "moe_intermediate_size": mixture.expert_width,
        "norm_topk_prob": mixture.normalized_scores,
    }
    if mixture.shared_experts:
        config["shared_expert_intermediate_size"] = mixture.shared_width or (
            mixture.shared_experts * mixture.expert_width
        )
    return config


def _scaling(scaling: RopeScaling) -> dict[str, Any]:
    values: dict[str, Any] = {"rope_type": scaling.method, "factor": scaling.factor}
    if scaling.original_positions is not None:
        values["original_max_position_embeddings"] = scaling.original_positions
    if scaling.method == "llama3":
        values |= {"low_freq_factor": scaling.low_frequency, "high_freq_factor": scaling.high_frequency}
    if scaling.method == "yarn":
        values |= {"beta_fast": scaling.beta_fast, "beta_slow": scaling.beta_slow, "truncate": scaling.truncated}
        if scaling.score_scale is not None:
            values |= {"mscale": scaling.score_scale, "mscale_all_dim": scaling.score_scale}
        elif scaling.attention_scale is not None:
            values["attention_factor"] = scaling.attention_scale
    return {key: value for key, value in values.items() if value is not None}
