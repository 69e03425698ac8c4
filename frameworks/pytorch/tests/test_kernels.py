"""Fused operations compute what the separate ones do, forward and backward."""

from dataclasses import replace

import pytest
from llmperf.cases.library import whole_library

pytestmark = pytest.mark.slow


@pytest.fixture
def torch():
    import torch

    torch.manual_seed(0)
    return torch


def gradients(torch, function, *inputs):
    """A function's output and the gradients of its inputs, for a gradient that is not the same everywhere."""
    inputs = [one.detach().clone().requires_grad_() for one in inputs]
    output = function(*inputs)
    output.backward(torch.linspace(-1, 1, output.numel()).view_as(output).to(output.dtype))
    return [output.detach(), *(one.grad for one in inputs)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_swiglu_and_rope_are_the_separate_operations(torch, dtype):
    from llmperf_pytorch.decoder.positions import Rotary
    from llmperf_pytorch.kernels.choice import Kernels

    dtype = getattr(torch, dtype)
    fused, separate = Kernels(fused=("rope", "swiglu")), Kernels()
    close = {"atol": 1e-5, "rtol": 1e-5} if dtype is torch.float32 else {"atol": 4e-2, "rtol": 2e-2}
    gate, up = torch.randn(2, 2, 9, 24, dtype=dtype)
    expected = gradients(torch, separate.swiglu, gate, up)
    torch.testing.assert_close(gradients(torch, fused.swiglu, gate, up), expected, **close)
    facts = replace(whole_library().model("llama_tiny"), head_width=8)
    cosines, sines = Rotary(facts, windowed=False)(9, dtype)
    heads = torch.randn(2, 9, 3, 8, dtype=dtype).transpose(1, 2)  # as projections give them
    expected = gradients(torch, lambda states: separate.rotate(states, cosines, sines), heads)
    turned = gradients(torch, lambda states: fused.rotate(states, cosines, sines), heads)
    torch.testing.assert_close(turned, expected, **close)
    assert turned[0].stride() == heads.stride()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("parts", [1, 3])
def test_linear_cross_entropy_is_projection_and_loss(torch, monkeypatch, dtype, parts):
    from llmperf_pytorch.kernels import cross_entropy
    from llmperf_torchkit.losses import mean_cross_entropy

    dtype = getattr(torch, dtype)
    monkeypatch.setitem(cross_entropy.LOGIT_BYTES, "cpu", -(-2 * 15 * 50 * 4 // parts))
    labels = torch.randint(0, 50, (2, 15))
    labels[0, 3] = labels[1, 10:] = -100
    states, weight = torch.randn(2, 15, 8, dtype=dtype), torch.randn(50, 8, dtype=dtype)
    expected = gradients(torch, lambda a, b: mean_cross_entropy(a @ b.t(), labels) * 3, states, weight)
    found = gradients(torch, lambda a, b: cross_entropy.linear_cross_entropy(a, b, labels) * 3, states, weight)
    close = {"atol": 1e-6, "rtol": 1e-5} if dtype is torch.float32 else {"atol": 1e-2, "rtol": 2e-2}
    torch.testing.assert_close(found, expected, **close)


def test_no_logits_are_kept_between_forward_and_backward(torch):
    from llmperf_pytorch.kernels.cross_entropy import linear_cross_entropy

    kept = []
    states, weight = torch.randn(300, 8, requires_grad=True), torch.randn(500, 8)
    with torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one.numel()) or one, lambda one: one):
        linear_cross_entropy(states, weight, torch.randint(0, 500, (300,))).backward()
    assert max(kept) == states.numel()  # nor is a gradient made for a weight that is not trained


@pytest.mark.parametrize("operation", ["rope", "swiglu"])
def test_operations_are_registered_as_torch_wants_them(torch, operation):
    from llmperf_pytorch.kernels.rope import rope
    from llmperf_pytorch.kernels.swiglu import swiglu

    gate, up = (torch.randn(2, 3, 4, 8, requires_grad=True) for _ in range(2))
    turned = (gate, torch.randn(4, 8), torch.randn(4, 8), False, False)
    function, arguments = (rope, turned) if operation == "rope" else (swiglu, (gate, up, False))
    torch.library.opcheck(
        function, arguments, test_utils=("test_schema", "test_faketensor", "test_autograd_registration")
    )


@pytest.mark.parametrize("family", ["llama", "rope", "alibi"])
def test_a_model_learns_the_same_with_fused_operations(torch, program, family):
    from llmperf_pytorch.kernel_limits import FUSED_OPS
    from llmperf_pytorch.kernels.choice import Kernels
    from llmperf_pytorch.models import build_model

    facts = {} if family == "llama" else {**program.BAICHUAN, "position_encoding": family}
    spec = program.make_spec({"framework": "pytorch", "model": facts})
    tokens = torch.randint(0, 512, (2, 33))
    losses, norms = [], []
    for kernels in (Kernels(), Kernels(fused=FUSED_OPS)):
        model = build_model(spec, torch.device("cpu"), kernels)
        loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        losses.append(loss.item())
        norms.append({name: parameter.grad.norm().item() for name, parameter in model.named_parameters()})
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)
