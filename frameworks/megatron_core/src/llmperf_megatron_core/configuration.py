"""A plan as megatron-core's own configuration: of the model, of data parallelism, of the optimiser."""

from __future__ import annotations

from typing import Any

import torch
from llmperf.types import Layout, Plan
from megatron.core.distributed import DistributedDataParallelConfig
from megatron.core.models.gpt import gpt_layer_specs
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig
from megatron.core.transformer.transformer_config import TransformerConfig


def transformer_config(plan: Plan) -> TransformerConfig:
    """Model, layout and precision.

    megatron-core also draws weights, which are replaced: left out (`perform_initialization`), it does not mark those
    that tensor-parallel ranks divide, and counts the others' gradients several times in the norm.
    """
    spec, layout = plan.spec, plan.layout
    model, tuning, on_cpu = spec.model, spec.tuning, plan.probe.on_cpu
    half = spec.contract.precision == "bf16"
    values: dict[str, Any] = {
        "num_layers": model.layers,
        "hidden_size": model.hidden_size,
        "ffn_hidden_size": model.intermediate_size,
        "num_attention_heads": model.attention_heads,
        "num_query_groups": model.kv_heads,
        "kv_channels": model.query_width,
        "normalization": "RMSNorm",
        "layernorm_epsilon": model.norm_eps,
        "add_bias_linear": False,
        "add_qkv_bias": bool(model.attention_bias),
        "qk_layernorm": model.qk_norm == "head",
        "gated_linear_unit": True,
        "activation_func": torch.nn.functional.silu,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "params_dtype": torch.bfloat16 if half else torch.float32,
        "pipeline_dtype": torch.bfloat16 if half else torch.float32,
        "bf16": half,
        "use_cpu_initialization": on_cpu,
        "tensor_model_parallel_size": layout.tensor_parallel,
        "pipeline_model_parallel_size": layout.pipeline_parallel,
        "sequence_parallel": layout.sequence_parallel,
        "expert_model_parallel_size": layout.expert_parallel,
        "expert_tensor_parallel_size": expert_tensor_parallel(layout),
        "batch_p2p_comm": not on_cpu,
        "gradient_accumulation_fusion": False,
        "masked_softmax_fusion": False,
        "bias_activation_fusion": not on_cpu,
        "bias_dropout_fusion": False,
        "apply_rope_fusion": False,
    }
    if tuning.virtual_stages > 1:
        values["virtual_pipeline_model_parallel_size"] = tuning.virtual_stages
    if tuning.gradient_checkpointing:
        values |= {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    if (mixture := model.mixture) is not None:
        values |= {
            "num_moe_experts": mixture.experts,
            "moe_router_topk": mixture.top_k,
            "moe_router_pre_softmax": not mixture.normalized_scores,
            "moe_ffn_hidden_size": mixture.expert_width,
            "moe_router_load_balancing_type": "none",
            "moe_router_dtype": "fp32",
            "moe_token_dispatcher_type": spec.framework.get("dispatcher", "allgather"),
            "moe_enable_routing_replay": spec.contract.routing != "learned",
            "moe_grouped_gemm": uses_transformer_engine(plan),
        }
    return TransformerConfig(**values)


def expert_tensor_parallel(layout: Layout) -> int:
    """Ranks that divide each expert: none with expert parallelism, else those that divide the other layers.

    With whole experts on each tensor-parallel rank and no expert parallelism, megatron-core 0.16.1 adds up no gradients
    of experts over these ranks.
    """
    return 1 if layout.expert_parallel > 1 else layout.tensor_parallel


def uses_transformer_engine(plan: Plan) -> bool:
    """Check whether layers are Transformer Engine's."""
    return plan.spec.framework.get("transformer_engine") is True


class RMSNorm(torch.nn.RMSNorm):
    """torch's, also under sequence parallelism, where gradients of its weight are added up over ranks.

    megatron-core's own layers have it too, but refuse it there.
    """

    def __init__(self, config: TransformerConfig, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        super().__init__(hidden_size, eps)
        self.weight.sequence_parallel = config.sequence_parallel


def model_chunk(plan: Plan, config: TransformerConfig, *, first: bool, last: bool, stage: int | None) -> GPTModel:
    """The layers of one pipeline stage of this rank."""
    model, engine = plan.spec.model, uses_transformer_engine(plan)
    scaling = model.rope_scaling
    layers = gpt_layer_specs.get_gpt_decoder_block_spec(
        config, use_transformer_engine=engine, normalization="RMSNorm", vp_stage=stage
    )
    if not engine:
        layers.layer_norm = RMSNorm
        for layer in layers.layer_specs:
            parts, attention = layer.submodules, layer.submodules.self_attention.submodules
            parts.input_layernorm = parts.pre_mlp_layernorm = RMSNorm
            if model.qk_norm == "head":
                attention.q_layernorm = attention.k_layernorm = RMSNorm
    chunk = GPTModel(
        config,
        layers,
        vocab_size=model.vocab_size,
        max_sequence_length=plan.spec.contract.seq_len,
        pre_process=first,
        post_process=last,
        share_embeddings_and_output_weights=model.tied_embeddings,
        position_embedding_type="rope",
        rotary_percent=model.rotated_share,
        rotary_base=model.rope_theta,
        vp_stage=stage,
    )
    if scaling is not None:  # by its own function, which GPTModel calls with the numbers of Llama 3.1 alone
        rotary = chunk.rotary_pos_emb
        rotary.inv_freq = rotary._apply_scaling(
            rotary.inv_freq, scaling.factor, scaling.low_frequency, scaling.high_frequency, scaling.original_positions
        )
    return chunk


def data_parallel_config(plan: Plan) -> DistributedDataParallelConfig:
    """Gradients reduced after the last micro batch; in float32 where the case says so."""
    return DistributedDataParallelConfig(
        grad_reduce_in_fp32=plan.spec.tuning.accumulation_dtype == "fp32",
        use_distributed_optimizer=plan.layout.sharding_stage == 1,
        overlap_grad_reduce=not plan.probe.on_cpu,
    )


def optimizer_config(plan: Plan) -> OptimizerConfig:
    """AdamW as the case has it; megatron-core leaves biases and vectors out of weight decay."""
    optimizer, half = plan.spec.contract.optimizer, plan.spec.contract.precision == "bf16"
    return OptimizerConfig(
        optimizer="adam",
        lr=optimizer.lr,
        weight_decay=optimizer.weight_decay,
        adam_beta1=optimizer.beta1,
        adam_beta2=optimizer.beta2,
        adam_eps=optimizer.eps,
        clip_grad=optimizer.clip_norm or 0.0,
        bf16=half,
        params_dtype=torch.bfloat16 if half else torch.float32,
        use_distributed_optimizer=plan.layout.sharding_stage == 1,
    )
