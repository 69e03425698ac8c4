"""What the types of Hugging Face configurations imply, and keys of these that say nothing of the architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_QUERIES_KEYS_VALUES = ["q", "k", "v"]
_BALANCED = {"router_score": "sigmoid", "balanced_by_bias": True}
_LATENT: Mapping[str, Any] = {"latent": {}, "rotated_pairs": "neighbours"}

TYPES: Mapping[str, Mapping[str, Any]] = {
    "llama": {"family": "llama"},
    "aquila": {"family": "llama"},
    "mistral": {"family": "mistral"},
    "baichuan": {"family": "baichuan", "normalized_head": True},
    "qwen2": {"family": "qwen2", "attention_bias": _QUERIES_KEYS_VALUES},
    "qwen3": {"family": "qwen3", "qk_norm": "head"},
    "qwen3_moe": {"family": "qwen3_moe", "qk_norm": "head", "mixture": {"normalized_scores": False}},
    "qwen2_moe": {
        "family": "qwen2_moe",
        "attention_bias": _QUERIES_KEYS_VALUES,
        "mixture": {"shared_gate": True, "normalized_scores": False},
    },
    "mixtral": {"family": "mixtral", "mixture": {}},
    "gpt_oss": {
        "family": "gpt_oss",
        "attention_bias": [*_QUERIES_KEYS_VALUES, "o"],
        "sinks": True,
        "activation": "swiglu_clamped",
        "window_pattern": ["window", "full"],
        "mixture": {"router_bias": True, "expert_bias": True},
    },
    "deepseek_v2": {"family": "deepseek_v2", **_LATENT, "mixture": {"normalized_scores": False}},
    "deepseek_v3": {"family": "deepseek_v3", **_LATENT, "mixture": _BALANCED},
    "kimi_k2": {"family": "deepseek_v3", **_LATENT, "mixture": _BALANCED},
    "gemma3_text": {
        "family": "gemma3",
        "qk_norm": "head",
        "activation": "geglu",
        "norms_per_block": 4,
        "norm_offset": True,
        "window_pattern": ["window", "window", "window", "window", "window", "full"],
    },
    "glm": {
        "family": "chatglm",
        "attention_bias": _QUERIES_KEYS_VALUES,
        "rotated_share": 0.5,
        "rotated_pairs": "neighbours",
    },
    "chatglm": {
        "family": "chatglm",
        "attention_bias": _QUERIES_KEYS_VALUES,
        "rotated_share": 0.5,
        "rotated_pairs": "neighbours",
    },
}
"""Facts of a model by `model_type`, before the keys of the configuration."""

NESTED_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
    },
    "gemma3_text": {
        "vocab_size": 262208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-6,
        "sliding_window": 4096,
        "query_pre_attn_scalar": 256,
    },
}
"""Values that transformers leaves out of the language part of a larger configuration, since its classes have them."""

_COMMON = {"original_max_position_embeddings": "original_positions"}
ROPE_KEYS: Mapping[str, Mapping[str, str]] = {
    "linear": {},
    "llama3": {**_COMMON, "low_freq_factor": "low_frequency", "high_freq_factor": "high_frequency"},
    "yarn": {
        **_COMMON,
        "beta_fast": "beta_fast",
        "beta_slow": "beta_slow",
        "truncate": "truncated",
        "attention_factor": "attention_scale",
        "mscale_all_dim": "score_scale",
    },
}
"""Fields of `RopeScaling` by the keys of a configuration, for each method."""

IGNORED = frozenset((
    "_name_or_path", "architectures", "auto_map", "bos_token_id", "eos_token_id", "pad_token_id",
    "decoder_start_token_id", "sep_token_id", "torch_dtype", "dtype", "transformers_version", "use_cache",
    "attention_dropout", "hidden_dropout", "embd_pdrop", "resid_pdrop", "attn_pdrop", "pretraining_tp",
    "output_router_logits", "router_aux_loss_coef", "router_jitter_noise", "aux_loss_alpha", "seq_aux",
    "ep_size", "return_dict", "output_hidden_states", "output_attentions", "chunk_size_feed_forward",
    "is_encoder_decoder", "id2label", "label2id", "problem_type", "tokenizer_class", "max_window_layers",
    "initial_context_length", "experts_per_token", "cache_implementation", "quantization_config",
    "unsloth_fixed", "rope_interleave", "swiglu_limit", "swiglu_alpha", "bias_dropout_fusion",
    "apply_residual_connection_post_layernorm", "apply_query_key_layer_scaling", "attention_softmax_in_fp32",
    "fp32_residual_connection", "original_rope", "rmsnorm", "post_layer_norm", "multi_query_attention",
    "classifier_dropout", "pre_seq_len", "prefix_projection", "quantization_bit", "attn_implementation",
    "_attn_implementation", "gradient_checkpointing",
))  # fmt: skip
"""Keys that say nothing of the architecture, or that its type implies."""

WITHOUT_MEANING: Mapping[str, Any] = {"moe_layer_freq": 1, "decoder_sparse_step": 1, "model_max_length": 4096}
"""Values that are as in the facts."""
