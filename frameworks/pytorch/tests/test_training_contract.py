"""The statements of docs/training-contract.md: what torch computes here against the NumPy reference of the kit."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import llmperf
import numpy as np
import pytest
import torch
from llmperf.cases.library import whole_library
from llmperf_pytorch.decoder.model import LanguageModel
from llmperf_pytorch.kernels.choice import Kernels, rms_norm
from llmperf_testing import reference
from llmperf_torchkit.losses import StepSums, mean_cross_entropy
from llmperf_torchkit.weights import count_parameters, fill_weights

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "training-contract.md"


@pytest.fixture(scope="module")
def tiny():
    return replace(whole_library().model("llama_tiny"), layers=1)


@pytest.mark.parametrize("tied", [False, True])
def test_names_shapes_and_values_of_initial_weights_are_the_references(tiny, tied):
    model = replace(tiny, tied_embeddings=tied)
    built = LanguageModel(model, "eager", Kernels())
    fill_weights(built, model, 7)
    expected = reference.Llama(model, seed=7).weights
    found = dict(built.named_parameters())
    assert sorted(found) == sorted(expected)
    assert ("lm_head.weight" in found) is not tied
    for name, parameter in found.items():
        np.testing.assert_array_equal(parameter.detach().numpy(), expected[name].astype(np.float32))
    assert count_parameters(built) == sum(weight.size for weight in expected.values())


def test_a_fused_weight_of_the_checkpoint_is_drawn_whole_under_its_name(tiny):
    model = replace(tiny, family="baichuan", kv_heads=tiny.attention_heads)
    built = LanguageModel(model, "eager", Kernels())
    fill_weights(built, model, 7)
    name, width = "model.layers.0.self_attn.W_pack.weight", model.hidden_size
    drawn = llmperf.initial_normal(7, name, (3 * width, width), model.initializer_std)
    np.testing.assert_array_equal(dict(built.named_parameters())[name].detach().numpy(), drawn)


def test_examples_run_and_a_fused_weight_is_made_of_the_parts():
    example, routing = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    scope: dict[str, object] = {}
    exec(example, scope)
    exec(routing, {})
    up = llmperf.initial_normal(1234, "model.layers.0.mlp.up_proj.weight", (12, 8), 0.02)
    np.testing.assert_array_equal(scope["gate_up"][12:], up)


def test_the_norm_has_its_epsilon_inside_the_root():
    states = torch.tensor([[3e-3, -4e-3]])
    expected = states / torch.sqrt((states * states).mean() + 1e-5) * 2
    torch.testing.assert_close(rms_norm(states, torch.full((2,), 2.0), 1e-5), expected)


def test_the_loss_of_a_padded_step_is_the_mean_over_its_learnt_tokens():
    logits = torch.randn(3, 4, 11, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([[1, 2, 3, 4], [5, -100, -100, -100], [6, 7, -100, -100]])
    sums = StepSums()
    for rows in (slice(0, 1), slice(1, 3)):
        learnt = int((labels[rows] >= 0).sum())
        sums.add(mean_cross_entropy(logits[rows], labels[rows]), learnt, learnt / 3.5)
    torch.testing.assert_close(sums.mean_loss(), mean_cross_entropy(logits, labels))
