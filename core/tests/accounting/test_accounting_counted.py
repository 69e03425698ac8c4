"""Every convention against the matrix products that PyTorch's own FLOP counter sees on the meta device.

The counter sees products only, all of S x S in eager attention, and no input embedding. So the conventions are compared
after the terms that they leave out are added and the terms that they add are taken away; each test names them.
"""

import pytest
from llmperf import library
from llmperf.accounting.counting import forward_flops
from llmperf.accounting.flops import count_flops
from llmperf.accounting.parameters import count_parameters, lora_parameters
from llmperf.types import Lora, Workload

torch = pytest.importorskip("torch")
pytest.importorskip("llmperf_pytorch")
pytestmark = pytest.mark.slow

NAMES = ("llama2_7b", "llama3_8b", "baichuan2_13b")
SEQ_LEN = 4096


facts = library().model


def on_meta(model):
    from llmperf_pytorch.decoder.model import LanguageModel
    from llmperf_pytorch.kernels.choice import Kernels

    with torch.device("meta"):
        return LanguageModel(model, "eager", Kernels()).train()


def counted(module, seq_len):
    """FLOPs per token of one forward and backward pass, batch 1."""
    from torch.utils.flop_counter import FlopCounterMode

    ids = torch.zeros(1, seq_len, dtype=torch.long, device="meta")
    with FlopCounterMode(display=False) as counter:
        module(ids).sum().backward()
    return counter.get_total_flops() / seq_len


@pytest.mark.parametrize("name", NAMES)
def test_conventions_against_the_counter(name):
    model = facts(name)
    parts, flops = count_parameters(model), count_flops(model, Workload(seq_len=SEQ_LEN))
    attention = 3 * forward_flops(model, SEQ_LEN, "full")["attention"]
    looked_up, norms = 6 * parts.looked_up, 6 * parts.norms
    beyond_nominal = 6 * (parts.total - model.nominal_parameters)
    left_out = {
        "nominal": beyond_nominal + attention,
        "exact": attention,
        "palm": 0,
        "causal": attention / 2,  # the eager kernel computes the masked half too
        "hfu": 0,
        "full": 0,
    }
    added = {
        "nominal": looked_up + norms, "exact": looked_up + norms, "palm": looked_up + norms, "causal": norms,
        "hfu": looked_up + norms, "full": norms,
    }  # fmt: skip
    products = counted(on_meta(model), SEQ_LEN)
    for entry in flops.per_token:
        comparable = entry.flops + left_out[entry.convention] - added[entry.convention]
        assert comparable == pytest.approx(products, rel=0.001), entry


class Adapted(torch.nn.Module):
    """A frozen projection with an adapter beside it."""

    def __init__(self, frozen, rank):
        super().__init__()
        self.frozen = frozen
        self.down = torch.nn.Linear(frozen.in_features, rank, bias=False, device="meta")
        self.up = torch.nn.Linear(rank, frozen.out_features, bias=False, device="meta")

    def forward(self, hidden):
        return self.frozen(hidden) + self.up(self.down(hidden))


def test_lora_against_the_counter():
    model, lora, seq_len = facts("llama2_7b"), Lora(rank=8), 512
    module = on_meta(model).requires_grad_(False)
    for layer in module.model.layers:
        for name in lora.target_modules:
            setattr(layer.self_attn, name, Adapted(getattr(layer.self_attn, name), lora.rank))
    adapters = sum(one.numel() for one in module.parameters() if one.requires_grad)
    assert adapters == lora_parameters(model, lora)

    flops = count_flops(model, Workload(seq_len=seq_len, lora_parameters=adapters))
    parts = count_parameters(model)
    comparable = flops.of("palm").flops - 4 * (parts.looked_up + parts.norms)
    assert comparable == pytest.approx(counted(module, seq_len), rel=0.01)
    assert flops.of("nominal").flops == 4 * 7e9
