"""What gradient checkpointing computes again: the same gradients, and as many matrix products as are counted."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from llmperf.accounting.flops import count_flops, recomputed_share
from llmperf.cases.library import whole_library
from llmperf.types import Tuning, Workload
from llmperf_pytorch.decoder.model import LanguageModel
from llmperf_pytorch.kernels.choice import Kernels
from llmperf_pytorch.models import blocks_of, recompute_blocks
from llmperf_torchkit.losses import mean_cross_entropy
from llmperf_torchkit.weights import fill_weights
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.slow

LAYERS, PRODUCTS = 4, 6
"""Of a block that are recomputed: no gradient needs the result of the last one."""


class Counting(TorchDispatchMode):
    """Counts operations by name."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.counts[str(function).split(".")[1]] += 1
        return function(*args, **(kwargs or {}))


def step(facts, tuning):
    """Gradients of one batch, and the operations that it took."""
    model = LanguageModel(facts, "sdpa", Kernels())
    fill_weights(model, facts, 3)
    recompute_blocks(blocks_of(model.train()), tuning)
    ids = torch.arange(32).view(2, 16)
    with Counting() as counting:
        mean_cross_entropy(model(ids), ids).backward()
    return [parameter.grad for parameter in model.parameters()], counting.counts


@pytest.mark.parametrize("family", ["llama", "baichuan"])
def test_recomputed_operations(family):
    facts = replace(whole_library().model("llama_tiny"), layers=LAYERS)
    if family == "baichuan":
        facts = replace(facts, family="baichuan", kv_heads=facts.attention_heads)
    plain = Tuning(framework="pytorch")
    expected, without = step(facts, plain)
    products = PRODUCTS - 2 * (family == "baichuan")
    more = {}
    for name, settings in {"block": {}, "every 3": {"recompute_every": 3}, "kept": {"recompute": "operations"}}.items():
        tuning = replace(plain, gradient_checkpointing=True, **settings)
        gradients, counts = step(facts, tuning)
        for gradient, wanted in zip(gradients, expected, strict=True):
            torch.testing.assert_close(gradient, wanted)
        assert counts["silu"] > without["silu"]
        more[name] = counts["mm"] - without["mm"]
        assert more[name] == products * LAYERS * recomputed_share(facts, tuning)
    assert more == {"block": products * LAYERS, "every 3": products * 2, "kept": 0}


def test_recomputed_products_are_counted_as_hfu():
    facts = whole_library().model("llama_tiny")
    tuning = Tuning(framework="pytorch", gradient_checkpointing=True)

    def hfu(tuning):
        share = recomputed_share(facts, tuning)
        workload = Workload(seq_len=64, gradient_checkpointing=tuning.gradient_checkpointing, recomputed_share=share)
        return count_flops(facts, workload).of("hfu")

    none, all_blocks = hfu(replace(tuning, gradient_checkpointing=False)), hfu(tuning)
    half, kept = hfu(replace(tuning, recompute_every=2)), hfu(replace(tuning, recompute="operations"))
    assert none.flops == kept.flops
    assert half.flops == (none.flops + all_blocks.flops) / 2
    assert half.formula.startswith("7 x ")
    assert half.formula.endswith("; the forward of 2 of 4 blocks recomputed")
    assert kept.formula.endswith("; only element-wise work recomputed")
