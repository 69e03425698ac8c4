"""One rank of torchtitan 0.3.0 on the plan's model shape, batch and steps, by FSDP2.

What `torch.cpu` and gloo lack is that of llmperf-torchtitan; torchtitan's own files are untouched. Its models attend by
FlexAttention or variable-length kernels, which have no backward pass on a CPU; its own `ScaledDotProductAttention`
takes their place.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from llmperf_torchtitan.cpu import stand_in_for_accelerator
from torch import distributed


def main() -> None:
    plan = json.loads((Path(sys.argv[1]) / "plan.json").read_text())
    contract, model, batch = plan["spec"]["contract"], plan["spec"]["model"], plan["batch"]
    steps, warmup = contract["steps"], contract["warmup_steps"]
    stand_in_for_accelerator()
    from llmperf_torchtitan.configuration import NoTokenizer
    from torchtitan.components.checkpoint import CheckpointManager
    from torchtitan.components.dataloader import BaseDataLoader
    from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
    from torchtitan.components.metrics import MetricsProcessor
    from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw
    from torchtitan.config import CompileConfig, DebugConfig, ParallelismConfig, TrainingConfig
    from torchtitan.models import llama3
    from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm
    from torchtitan.models.common.attention import ScaledDotProductAttention
    from torchtitan.models.llama3.model import Llama3Model
    from torchtitan.protocols.model_spec import ModelSpec
    from torchtitan.trainer import Trainer

    class Tokens(BaseDataLoader):
        """Random ids: what a step costs does not depend on them."""

        @dataclass(kw_only=True, slots=True)
        class Config(BaseDataLoader.Config):
            pass

        def __init__(self, config: Config, *, dp_rank: int, seq_len: int, local_batch_size: int, **_: Any) -> None:
            self._shape = (local_batch_size, seq_len + 1)
            self._generator = torch.Generator().manual_seed(dp_rank)

        def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
            while True:
                rows = torch.randint(model["vocab_size"], self._shape, generator=self._generator)
                yield {"input": rows[:, :-1].contiguous()}, rows[:, 1:].contiguous()

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            pass

    width, heads = model["hidden_size"], model["attention_heads"]
    shape = Llama3Model.Config(
        dim=width,
        vocab_size=model["vocab_size"],
        tok_embeddings=Embedding.Config(
            num_embeddings=model["vocab_size"], embedding_dim=width, param_init=llama3._EMBEDDING_INIT
        ),
        norm=RMSNorm.Config(normalized_shape=width, param_init=llama3._NORM_INIT),
        lm_head=Linear.Config(
            in_features=width, out_features=model["vocab_size"], param_init=llama3._output_linear_init(width)
        ),
        layers=llama3._build_llama3_layers(
            n_layers=model["layers"],
            dim=width,
            n_heads=heads,
            n_kv_heads=model["kv_heads"],
            hidden_dim=model["intermediate_size"],
            rope=ComplexRoPE.Config(dim=width // heads, max_seq_len=contract["seq_len"], theta=model["rope_theta"]),
            attn_backend="flex",
        ),
    )
    for layer in shape.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    loss: Any = CrossEntropyLoss.Config(global_vocab_size=model["vocab_size"])
    if "chunked" in sys.argv[2:]:
        loss = ChunkedLossWrapper.Config(loss_fn=loss)
    config = Trainer.Config(
        loss=loss,
        dump_folder=sys.argv[1],
        model_spec=ModelSpec(
            name="llama3",
            flavor=model["name"],
            model=shape,
            parallelize_fn=llama3.parallelize_llama,
            pipelining_fn=None,
            post_optimizer_build_fn=None,
            state_dict_adapter=None,
        ),
        tokenizer=NoTokenizer.Config(),
        dataloader=Tokens.Config(),
        optimizer=default_adamw(lr=contract["optimizer"]["lr"]),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=0),
        training=TrainingConfig(
            local_batch_size=batch["micro_batch"],
            global_batch_size=contract["global_batch"],
            seq_len=contract["seq_len"],
            steps=steps,
            max_norm=contract["optimizer"]["clip_norm"],
            disable_cuda_graphs=True,
            mixed_precision_param="float32",
        ),
        parallelism=ParallelismConfig(
            data_parallel_shard_degree=int(os.environ["WORLD_SIZE"]),
            fsdp_reshard_after_forward="always" if plan["spec"]["tuning"]["sharding_stage"] == 3 else "never",
        ),
        metrics=MetricsProcessor.Config(log_freq=steps),
        checkpoint=CheckpointManager.Config(enable=False),
        activation_checkpoint=None,
        compile=CompileConfig(enable="compiled" in sys.argv[2:]),
        debug=DebugConfig(enable_structured_logging=False),
    )
    ends: list[tuple[float, float]] = []

    class Timed(Trainer):
        """The trainer with its clocks read after each step."""

        def train_step(self, data_iterator: Any) -> Any:
            output = super().train_step(data_iterator)
            ends.append((time.perf_counter(), time.process_time()))
            return output

    trainer = Timed(config)
    trainer.train()
    parameters = sum(parameter.numel() for parameter in trainer.model_parts[0].parameters())
    trainer.close()
    distributed.destroy_process_group()
    seconds, cpu_seconds = (late - early for early, late in zip(ends[warmup - 1], ends[steps - 1], strict=True))
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds, "parameters": parameters}))


if __name__ == "__main__":
    main()
