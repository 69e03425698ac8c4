"""A model class of transformers trained by DeepSpeed's engine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
import torch._dynamo  # while zero.Init replaces torch.Tensor.__new__ it cannot be imported
from llmperf_torchkit.losses import mean_cross_entropy
from llmperf_torchkit.precision import rest_dtype
from llmperf_torchkit.weights import count_parameters
from llmperf_zero.deepspeed_import import deepspeed
from llmperf_zero.trainer import ZeroTrainer
from transformers.initialization import no_init_weights

from llmperf_transformers.trainer import Transformers, build_model, fill_whole, own_values, route_and_count


class DeepSpeedTrainer(Transformers, ZeroTrainer):
    """Weights in the case's precision, master weights and AdamW states in float32, sharded by stage."""

    def _make(self, config: Mapping[str, Any]) -> torch.nn.Module:
        sharded = self._spec.tuning.sharding_stage == 3
        init = deepspeed.zero.Init(config_dict_or_path=config) if sharded else nullcontext()
        with self._device, init, no_init_weights():  # classes may not expect shards
            model = build_model(self._spec, rest_dtype(self._spec.contract.precision))
        self.parameter_count = count_parameters(model)
        own = own_values(self._spec)
        for name, parameter in model.named_parameters():
            with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0, enabled=sharded):
                if not sharded or torch.distributed.get_rank() == 0:
                    fill_whole(name, parameter, self._spec, own)
        self._loads = route_and_count(model, self._plan, self._device)
        return model

    def _loss(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return mean_cross_entropy(self._engine(input_ids=inputs, use_cache=False).logits, labels)
