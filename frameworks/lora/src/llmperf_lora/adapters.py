"""Adapters around a frozen model: made, given their initial values, saved."""

from __future__ import annotations

import hashlib
import math
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import llmperf
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.utils import get_peft_model_state_dict
from safetensors.torch import save_file

from llmperf_lora.lean_layers import make_lean

if TYPE_CHECKING:
    from llmperf.types import Lora, RunSpec

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
        adapted = get_peft_model(model, lora_config(lora), autocast_adapter_dtype=single_precision)
    for name, parameter in adapted.named_parameters():
        if parameter.requires_grad:
            fill_adapter(name, parameter, spec.contract.seed)
    keeps_products = spec.tuning.gradient_checkpointing and spec.tuning.recompute == "operations"
    make_lean(adapted, in_place=not keeps_products)
    return adapted.train()


def lora_config(lora: Lora) -> LoraConfig:
    """peft's configuration of a contract; without a task, so that peft passes inputs on as they are."""
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.target_modules),
        bias="none",
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
