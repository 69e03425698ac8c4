"""A plan as torchtitan's configuration: model, training, parallelism, optimiser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from llmperf.types import Model, Plan
from torch import nn
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.components.optimizer import LRSchedulersContainer, OptimizersContainer, ParamGroupConfig
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.config import CompileConfig, DebugConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from torchtitan.models import llama3, qwen3
from torchtitan.models.common import ComplexRoPE, CosSinRoPE, Embedding, Linear, RMSNorm
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.protocols.model_spec import ModelSpec
from torchtitan.trainer import Trainer

INIT: dict[str, Any] = {"weight": nn.init.zeros_, "bias": nn.init.zeros_}
NORMS = r"norm"


class Tokens(BaseDataLoader):
    """Stands for a data set: the trainer gets its batches from llmperf."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        """No settings."""

    def __init__(self, config: Config, **_: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def state_dict(self) -> dict[str, Any]:
        """Empty."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing to load."""


class NoTokenizer(BaseTokenizer):
    """Stands for a tokenizer: batches are tokens already."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        """No settings."""

    def __init__(self, config: Config, **_: Any) -> None:
        super().__init__()

    def encode(self, *_: Any, **__: Any) -> list[int]:
        """No text is encoded."""
        raise NotImplementedError

    def decode(self, *_: Any, **__: Any) -> str:
        """No tokens are decoded."""
        raise NotImplementedError

    def get_vocab_size(self) -> int:
        """Not asked for."""
        raise NotImplementedError


def model_spec(plan: Plan) -> ModelSpec:
    """Llama's class, or Qwen3's where queries and keys have norms."""
    model, seq_len = plan.spec.model, plan.spec.contract.seq_len
    common = {
        "n_layers": model.layers,
        "dim": model.hidden_size,
        "n_heads": model.attention_heads,
        "n_kv_heads": model.kv_heads,
        "fuse_qkv": True,
        "attn_backend": "flex",
    }
    rotary: dict[str, Any] = {"dim": model.query_width, "max_seq_len": seq_len, "theta": model.rope_theta}
    if model.qk_norm == "none":
        kind, parallelise = llama3, llama3.parallelize_llama
        if (scaling := model.rope_scaling) is not None:
            rotary |= {
                "scaling": "llama",
                "scaling_factor": scaling.factor,
                "low_freq_factor": scaling.low_frequency,
                "high_freq_factor": scaling.high_frequency,
                "original_max_position_embeddings": scaling.original_positions,
            }
        rope: Any = ComplexRoPE.Config(**rotary)
        layers = llama3._build_llama3_layers(**common, hidden_dim=model.intermediate_size, rope=rope)
        shape: Any = llama3.Llama3Model.Config
    else:
        kind, parallelise = qwen3, qwen3.parallelize_qwen3
        rope = CosSinRoPE.Config(**rotary)
        shape = qwen3.Qwen3Model.Config
        if (mixture := model.mixture) is None:
            layers = qwen3._build_qwen3_layers(
                **common, head_dim=model.query_width, hidden_dim=model.intermediate_size, rope=rope
            )
        else:
            layers = qwen3._build_qwen3_moe_layers(
                **common,
                head_dim=model.query_width,
                moe_hidden_dim=mixture.expert_width,
                num_experts=mixture.experts,
                top_k=mixture.top_k,
                moe_comm_backend="standard",
                rope=rope,
            )
    for layer in layers:
        if plan.probe.on_cpu or plan.spec.tuning.attention == "sdpa":  # FlexAttention has no backward pass on a CPU
            layer.attention.inner_attention = ScaledDotProductAttention.Config()
        _set_norms(layer, model)
    width = model.hidden_size
    return ModelSpec(
        name=kind.__name__.rpartition(".")[2],
        flavor=model.name,
        model=shape(
            dim=width,
            vocab_size=model.vocab_size,
            enable_weight_tying=model.tied_embeddings,
            tok_embeddings=Embedding.Config(num_embeddings=model.vocab_size, embedding_dim=width, param_init=INIT),
            norm=RMSNorm.Config(normalized_shape=width, eps=model.norm_eps, param_init=INIT),
            lm_head=Linear.Config(in_features=width, out_features=model.vocab_size, param_init=INIT),
            layers=layers,
        ),
        parallelize_fn=parallelise,
        pipelining_fn=kind.pipeline_llm,
        post_optimizer_build_fn=None,
        state_dict_adapter=None,
    )


def _set_norms(layer: Any, model: Model) -> None:
    """Give a layer's norms the model's epsilon."""
    for norm in (layer.attention_norm, layer.ffn_norm, layer.attention.qk_norm):
        if norm is not None:
            norm.eps = model.norm_eps


def trainer_config(plan: Plan, folder: str) -> Trainer.Config:
    """All of a run. Learning rates are set before each step; nothing is logged, saved or validated."""
    contract, tuning, layout, batch = plan.spec.contract, plan.spec.tuning, plan.layout, plan.batch
    adam = contract.optimizer
    shared = {"lr": adam.lr, "betas": (adam.beta1, adam.beta2), "eps": adam.eps}
    pipeline = layout.pipeline_parallel > 1
    shards = layout.sharding_degree if layout.sharding_stage else 1
    recompute: Any = None
    if tuning.gradient_checkpointing:
        recompute = FullAC.Config() if tuning.recompute == "block" else SelectiveAC.Config()
    return Trainer.Config(
        loss=CrossEntropyLoss.Config(global_vocab_size=plan.spec.model.vocab_size),
        dump_folder=folder,
        model_spec=model_spec(plan),
        tokenizer=NoTokenizer.Config(),
        dataloader=Tokens.Config(),
        optimizer=OptimizersContainer.Config(
            param_groups=[
                ParamGroupConfig(
                    pattern=NORMS, optimizer_name="AdamW", optimizer_kwargs={**shared, "weight_decay": 0.0}
                ),
                ParamGroupConfig(
                    pattern=".*",
                    optimizer_name="AdamW",
                    optimizer_kwargs={**shared, "weight_decay": adam.weight_decay},
                ),
            ]
        ),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=0),
        training=TrainingConfig(
            local_batch_size=batch.micro_batch * (batch.gradient_accumulation if pipeline else 1),
            global_batch_size=contract.global_batch,
            seq_len=contract.seq_len,
            steps=contract.steps,
            max_norm=adam.clip_norm or float("inf"),
            disable_cuda_graphs=True,
            mixed_precision_param="bfloat16" if contract.precision == "bf16" else "float32",
        ),
        parallelism=ParallelismConfig(
            data_parallel_replicate_degree=layout.data_parallel // shards,
            data_parallel_shard_degree=shards,
            fsdp_reshard_after_forward="always" if layout.sharding_stage == 3 else "never",
            tensor_parallel_degree=layout.tensor_parallel,
            enable_sequence_parallel=layout.sequence_parallel,
            pipeline_parallel_degree=layout.pipeline_parallel,
            pipeline_parallel_microbatch_size=batch.micro_batch,
            pipeline_parallel_first_stage_less_layers=0,
            pipeline_parallel_last_stage_less_layers=0,
            expert_parallel_degree=layout.expert_parallel,
        ),
        metrics=MetricsProcessor.Config(log_freq=contract.steps + 2),
        checkpoint=CheckpointManager.Config(enable=False),
        activation_checkpoint=recompute,
        compile=CompileConfig(enable=tuning.compile),
        debug=DebugConfig(enable_structured_logging=False, seed=contract.seed),
    )


def optimiser_kind(optimizers: Any) -> str:
    """Class of the optimiser of the first part of the model."""
    first: torch.optim.Optimizer = next(iter(optimizers))
    return type(first).__name__
