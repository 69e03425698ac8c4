"""Adapted projections compute what peft's do, with fewer passes over their activations."""

import copy

import pytest

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")

from llmperf_lora.adapters import LeanLinear, make_lean  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

pytestmark = pytest.mark.slow


def adapted(dropout=0.0, dtype=torch.float32):
    torch.manual_seed(0)
    model = torch.nn.ModuleDict({"q_proj": torch.nn.Linear(32, 24, bias=False).to(dtype)})
    config = peft.LoraConfig(r=4, lora_alpha=16, lora_dropout=dropout, target_modules=["q_proj"])
    layers = peft.get_peft_model(model, config)
    torch.nn.init.normal_(layers.base_model.model.q_proj.lora_B["default"].weight)
    return layers.train()


def projection(layers):
    return layers.base_model.model.q_proj


def outcome(layers, states):
    """Output, gradient of the input, gradients of the adapter."""
    states = states.clone().requires_grad_()
    layer = projection(layers)
    torch.manual_seed(1)
    output = layer(states)
    output.float().square().sum().backward()
    return output, states.grad, layer.lora_A["default"].weight.grad, layer.lora_B["default"].weight.grad


@pytest.mark.parametrize(("dropout", "in_place"), [(0.0, True), (0.5, True), (0.5, False)])
def test_values_and_gradients_are_pefts(dropout, in_place):
    theirs = adapted(dropout)
    ours = copy.deepcopy(theirs)
    make_lean(ours, in_place=in_place)
    assert type(projection(ours)) is LeanLinear
    states = torch.randn(3, 5, 32)
    for found, expected in zip(outcome(ours, states), outcome(theirs, states), strict=True):
        assert torch.allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_in_16_bits_no_activation_is_cast_to_float32():
    ours = adapted(0.5, torch.bfloat16)
    theirs = copy.deepcopy(ours)
    make_lean(ours, in_place=True)
    states = torch.randn(3, 5, 32, dtype=torch.bfloat16)
    sizes = {}
    for name, layers in (("ours", ours), ("peft", theirs)):
        with torch.autocast("cpu", torch.bfloat16), WideResults() as seen:
            output = projection(layers)(states)
        sizes[name] = seen.elements
        assert output.dtype is torch.bfloat16
    assert sizes["ours"] == 0 < sizes["peft"]


def test_a_disabled_adapter_leaves_the_frozen_projection():
    layers = adapted()
    make_lean(layers, in_place=True)
    states = torch.randn(2, 5, 32)
    with layers.disable_adapter():
        assert torch.equal(projection(layers)(states), projection(layers).base_layer(states))


class WideResults(TorchDispatchMode):
    """Counts elements of float32 results that are as large as the input."""

    elements = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.dtype is torch.float32 and result.numel() >= 3 * 5 * 24:
            self.elements += result.numel()
        return result
