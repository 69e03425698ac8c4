"""Adapters trained on one device, or on several with DistributedDataParallel."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from llmperf.types import Device, Plan
from llmperf_pytorch.ddp import DdpTrainer
from llmperf_pytorch.models import construct_model
from llmperf_torchkit.precision import default_dtype, rest_dtype
from llmperf_torchkit.processes import own_rank
from llmperf_torchkit.weights import count_parameters

from llmperf_lora.adapters import adapt, seed_dropout
from llmperf_lora.base_weights import BaseWeights
from llmperf_lora.mmlu_evaluation import Afterwards


class LoraDdpTrainer(Afterwards, DdpTrainer):
    """Frozen weights in the case's precision, adapters and their AdamW states in float32."""

    def __init__(self, plan: Plan, device: Device) -> None:
        super().__init__(plan, device)
        seed_dropout(plan.spec.contract.seed, own_rank())

    def _make(self) -> torch.nn.Module:
        spec = self._plan.spec
        with self._device, default_dtype(rest_dtype(spec.contract.precision)):
            model = construct_model(spec, self._kernels)
        self.parameter_count = count_parameters(model)
        with BaseWeights(spec) as weights:
            for name, parameter in model.named_parameters():
                weights.fill(name, parameter)
        self._adapted = adapt(model, spec, single_precision=True)
        return self._adapted

    def _logits(self, inputs: torch.Tensor) -> torch.Tensor:
        with self._autocast():
            return self._adapted(inputs)

    def _whole_adapters(self) -> AbstractContextManager[object]:
        return nullcontext()
