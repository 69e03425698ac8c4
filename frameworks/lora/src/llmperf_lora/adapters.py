"""Adapters around a frozen model: made, given their initial values, saved, and computed with fewer passes.

peft casts a projection's input to the adapter's float32 and drops out there, though autocast then computes the product
in 16 bits; it scales the adapter's whole output, and adds it in a pass of its own. Here the input stays as it is, the
narrow product (`rank` columns) is scaled, and the kernel of the second product adds it to the projection's output.
Values are those of peft.
"""

from __future__ import annotations

import hashlib
import math
import re
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import llmperf
import torch
from llmperf.types import Lora, RunSpec
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora.layer import Linear
from peft.utils import get_peft_model_state_dict
from safetensors.torch import save_file
from torch.nn import functional

ADAPTER = "default"
WEIGHTS = "adapter_model.safetensors"


def adapt(model: torch.nn.Module, spec: RunSpec, *, single_precision: bool) -> PeftModel:
    """The model, frozen, with adapters in training mode; `forward(ids)` and `forward(ids, labels)` as before.

    Adapters of a 16-bit model are float32 if `single_precision`, as peft has them, else of its dtype.
    """
    lora = spec.contract.lora
    assert lora is not None  # held by the plan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers for a name that it is about to change
        adapted = get_peft_model(model, peft_config(lora), autocast_adapter_dtype=single_precision)
    for name, parameter in adapted.named_parameters():
        if parameter.requires_grad:
            fill_adapter(name, parameter, spec.contract.seed)
    keeps_products = spec.tuning.gradient_checkpointing and spec.tuning.recompute == "operations"
    make_lean(adapted, in_place=not keeps_products)
    return adapted.train()


def peft_config(lora: Lora, task: str | None = None) -> LoraConfig:
    """peft's configuration of a contract; without a task, peft passes inputs on as they are."""
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.target_modules),
        bias="none",
        task_type=task,
    )


def canonical(name: str) -> str:
    """A parameter's name without what peft puts around it: `model.layers.0.self_attn.q_proj.lora_A.weight`."""
    plain = name.removeprefix("base_model.model.").replace(".base_layer.", ".")
    return re.sub(rf"\.(lora_[AB])\.{ADAPTER}\.", r".\1.", plain)


@torch.no_grad()
def fill_adapter(name: str, parameter: torch.Tensor, seed: int) -> None:
    """B is 0. A [rank, inputs] is drawn by its canonical name with standard deviation 1 / sqrt(3 x inputs).

    That is the variance of peft's own uniform draw in +-1 / sqrt(inputs), and the same on every rank and layout.
    """
    if ".lora_B." in name:
        parameter.zero_()
        return
    shape = tuple(parameter.shape)
    drawn = llmperf.initial_normal(seed, canonical(name), shape, 1 / math.sqrt(3 * shape[1]))
    parameter.copy_(torch.from_numpy(drawn))


def seed_dropout(seed: int, rank: int) -> None:
    """Let each rank drop other inputs, the same ones in every run of a seed."""
    digest = hashlib.sha256(f"llmperf/lora/dropout/{seed}/{rank}".encode()).digest()
    torch.manual_seed(int.from_bytes(digest[:7], "little"))


def save_adapters(adapted: PeftModel, folder: Path, base_weights: str | None) -> None:
    """The adapters as peft reads them again, on top of a causal model; whole parameters must be at hand."""
    folder.mkdir()
    config = adapted.peft_config[ADAPTER]
    state = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    save_file({name: one.detach().cpu().contiguous() for name, one in state.items()}, folder / WEIGHTS)
    before = config.task_type, config.inference_mode, config.base_model_name_or_path
    config.task_type, config.inference_mode, config.base_model_name_or_path = "CAUSAL_LM", True, base_weights
    try:
        config.save_pretrained(str(folder))
    finally:
        config.task_type, config.inference_mode, config.base_model_name_or_path = before


def make_lean(model: torch.nn.Module, *, in_place: bool) -> None:
    """Change the adapted projections of a model that has one plain adapter.

    `in_place` adds to the projection's output itself, which recomputation must not keep then.
    """
    for module in model.modules():
        if type(module) is Linear:
            module.__class__ = LeanLinear
            module.adds_in_place = in_place


class LeanLinear(Linear):
    """A frozen projection with an adapter: x W + (dropout(x) A) (alpha / rank) B."""

    adds_in_place: bool

    def forward(self, x: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
        """[..., inputs] to [..., outputs]."""
        (adapter,) = self.active_adapters
        first, second = self.lora_A[adapter].weight, self.lora_B[adapter].weight
        if self.disable_adapters or self.merged or hasattr(first, "ds_id"):  # ZeRO-3 gathers weights for their modules
            output: torch.Tensor = super().forward(x, *arguments, **named)
            return output
        rows = x.flatten(0, -2)
        base = self.base_layer(rows)
        dropped = self.lora_dropout[adapter](rows).to(base.dtype)
        narrow = functional.linear(dropped, first.to(base.dtype)) * self.scaling[adapter]
        add = base.addmm_ if self.adds_in_place else partial(torch.addmm, base)
        whole: torch.Tensor = add(narrow, second.t().to(base.dtype))
        return whole.view(*x.shape[:-1], -1)
