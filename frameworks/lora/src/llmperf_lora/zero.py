"""Adapters trained by DeepSpeed ZeRO."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from llmperf.types import Device, Plan
from llmperf_torchkit.processes import own_rank
from llmperf_zero.deepspeed_import import deepspeed
from llmperf_zero.trainer import ZeroTrainer

from llmperf_lora.adapters import adapt, seed_dropout
from llmperf_lora.base_weights import BaseWeights
from llmperf_lora.mmlu_evaluation import Afterwards


class LoraZeroTrainer(Afterwards, ZeroTrainer):
    """Weights in the case's precision; master weights and AdamW states, of the adapters alone, in float32."""

    def __init__(self, plan: Plan, device: Device) -> None:
        super().__init__(plan, device)
        seed_dropout(plan.spec.contract.seed, own_rank())

    def _make(self, config: Mapping[str, Any]) -> torch.nn.Module:
        with BaseWeights(self._spec) as self._weights:
            model = super()._make(config)
        # DeepSpeed wants one dtype throughout, and keeps float32 master weights by itself
        self._adapted = adapt(model, self._spec, single_precision=False)
        return self._adapted

    def _fill(self, name: str, parameter: torch.Tensor) -> None:
        self._weights.fill(name, parameter)

    def _fill_shard(self, name: str, parameter: Any) -> None:
        if self._weights.drawn:
            super()._fill_shard(name, parameter)
            return
        with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0):
            if torch.distributed.get_rank() == 0:
                self._fill(name, parameter)

    def _logits(self, inputs: torch.Tensor) -> torch.Tensor:
        return self._engine(inputs)

    def _whole_adapters(self) -> AbstractContextManager[object]:
        trained = [parameter for parameter in self._adapted.parameters() if parameter.requires_grad]
        return deepspeed.zero.GatheredParameters(trained, enabled=self._spec.tuning.sharding_stage == 3)
