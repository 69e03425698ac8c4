"""The losses of any family that transformers has a class for: that class on the CPU, its weights in float64.

Norms and softmaxes are in float32, as transformers computes them whatever the dtype. Needs torch, transformers 5 and
llmperf-huggingface.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from llmperf import (
    count_parameters,
    decays,
    initial_constant,
    initial_normal,
    learning_rate,
    routing_table,
)
from llmperf.errors import UserError
from llmperf.types import Model, Plan, RunSpec
from llmperf_huggingface.export import huggingface_config
from numpy.typing import NDArray
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM

from llmperf_testing.drawn_case import LateTokens
from llmperf_testing.observations import Trajectory
from llmperf_testing.reference import micro_batches

Draw = Callable[[str, tuple[int, ...]], NDArray[np.float32]]
"""An initial weight by its name and shape."""

RENAMED = {
    ".mlp.gate.weight": ".mlp.router.weight",
    ".mlp.shared_experts.": ".mlp.shared_expert.",
}
"""Parts of transformers' names that differ between its classes, and llmperf's name of them."""
GATE_AND_UP = ("gate_proj", "up_proj")


def uncovered(spec: RunSpec) -> str | None:
    """Reason why no class of transformers computes the losses of a spec; None if one does."""
    model = spec.model
    try:
        config = _configuration(model)
    except UserError as error:
        return str(error)
    with torch.device("meta"):
        theirs = sum(weight.numel() for weight in AutoModelForCausalLM.from_config(config).parameters())
    ours = count_parameters(model).total
    if theirs != ours:
        return f"transformers' class of family {model.family} has {theirs:,} parameters, {model.name} {ours:,}"
    return None


def trajectory(plan: Plan, steps: int, late: LateTokens | None = None) -> Trajectory:
    """The first steps of a plan, with the kit's own tokens from a step on; UserError without a class for its family."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # operations of small models, whose threads mostly wait on a busy host
    try:
        contract = plan.spec.contract
        adam = contract.optimizer
        network = reference_network(plan.spec.model, contract.seed)
        named = list(network.named_parameters())
        groups = [
            {"params": [weight for name, weight in named if decays(name)], "weight_decay": adam.weight_decay},
            {"params": [weight for name, weight in named if not decays(name)], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, betas=(adam.beta1, adam.beta2), eps=adam.eps)
        losses, norms = [], []
        for step, drawn in enumerate(micro_batches(plan, steps, late), start=1):
            with forced_routing(plan):
                losses.append(float(np.mean([_learn(network, rows, 1 / len(drawn)) for _, rows in drawn])))
            clip = math.inf if adam.clip_norm is None else adam.clip_norm
            norms.append(float(torch.nn.utils.clip_grad_norm_(network.parameters(), clip)))
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(adam, step, contract.steps)
            optimizer.step()
            optimizer.zero_grad()
        return Trajectory(losses=tuple(losses), grad_norms=tuple(norms))
    finally:
        torch.set_num_threads(threads)


def reference_network(model: Model, seed: int) -> torch.nn.Module:
    """transformers' class of a model with its initial weights, in float64, with eager attention."""
    network: torch.nn.Module = AutoModelForCausalLM.from_config(_configuration(model), attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(torch.from_numpy(initial_weight(name, tuple(parameter.shape), model, seed)))
    return network.double().train()


def _configuration(model: Model) -> Any:
    values = huggingface_config(model)
    return AutoConfig.for_model(values.pop("model_type"), **values, experts_implementation="eager")


@contextmanager
def forced_routing(plan: Plan) -> Iterator[None]:
    """Within it, tokens take the experts of the contract's tables instead of those with the highest scores."""
    model, contract = plan.spec.model, plan.spec.contract
    mixture, chosen = model.mixture, torch.topk
    if mixture is None or contract.routing == "learned":
        yield
        return
    tables = [
        torch.from_numpy(routing_table(contract.seed, model, layer, contract.routing, contract.routing_skew))
        for layer in range(mixture.dense_layers, model.layers)
    ]
    coming = cycle(tables)

    def from_table(scores: torch.Tensor, k: int, *others: Any, **named: Any) -> Any:
        if (scores.shape[-1], k) != (mixture.experts, mixture.top_k):
            return chosen(scores, k, *others, **named)  # of groups of experts
        table = next(coming)
        places = torch.arange(len(scores)) % contract.seq_len
        experts = table[places % len(table)]
        return scores.gather(-1, experts), experts

    with patch.object(torch, "topk", from_table):
        yield


def initial_weight(name: str, shape: tuple[int, ...], model: Model, seed: int) -> NDArray[np.float32]:
    """The initial values of a parameter by its name and shape in transformers, assembled from llmperf's draws."""
    if (constant := initial_constant(name, model)) is not None:
        return np.full(shape, constant, dtype=np.float32)
    for theirs, ours in RENAMED.items():
        name = name.replace(theirs, ours)

    def draw(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        return initial_normal(seed, name, shape, model.initializer_std)

    if ".experts." in name:
        # all experts [experts, out, in]; GPT-OSS has [experts, in, out], and gate and up rows by turns
        turned = model.family == "gpt_oss"
        experts, rows, columns = (shape[0], shape[2], shape[1]) if turned else shape
        layer, projection = name.rsplit(".", 1)
        matrices = []
        for expert in range(experts):
            if projection == "gate_up_proj":
                matrix = _gate_and_up(f"{layer}.{expert}.", (rows // 2, columns), draw)
                if turned:
                    matrix = matrix.reshape(2, rows // 2, columns).swapaxes(0, 1).reshape(rows, columns)
            else:
                matrix = draw(f"{layer}.{expert}.{projection}.weight", (rows, columns))
            matrices.append(matrix.T if turned else matrix)
        return np.stack(matrices)
    if name.endswith(".gate_up_proj.weight"):
        return _gate_and_up(name.removesuffix("gate_up_proj.weight"), (shape[0] // 2, shape[1]), draw)
    return draw(name, shape)


def _gate_and_up(prefix: str, shape: tuple[int, int], draw: Draw) -> NDArray[np.float32]:
    return np.concatenate([draw(f"{prefix}{projection}.weight", shape) for projection in GATE_AND_UP])


def _learn(network: torch.nn.Module, rows: NDArray[np.int64], share: float) -> float:
    """The mean loss of a micro batch [rows, seq_len + 1]; its share of the gradients is added."""
    tokens = torch.from_numpy(rows)
    logits = network(input_ids=tokens[:, :-1], use_cache=False).logits
    loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    (loss * share).backward()
    return float(loss.detach())
