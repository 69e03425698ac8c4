"""RMSNorm is one operation, or separate ones in float32 as in transformers, and computes the same."""

import warnings
from dataclasses import replace

import pytest
import torch
from llmperf.cases.library import whole_library
from llmperf_pytorch.decoder.positions import Rotary
from llmperf_pytorch.kernel_limits import FUSED_OPS
from llmperf_pytorch.kernels import choice, cross_entropy
from llmperf_pytorch.kernels.choice import Kernels, rms_norm, rope, separate_rms_norm
from llmperf_pytorch.kernels.cross_entropy import linear_cross_entropy
from llmperf_pytorch.kernels.swiglu import swiglu
from llmperf_pytorch.models import build_model, construct_model
from llmperf_torchkit.losses import mean_cross_entropy
from llmperf_torchkit.precision import DTYPES, default_dtype
from torch.profiler import profile

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize(("precision", "roundings"), [("float32", 0), ("bfloat16", 1), ("float16", 1)])
def test_the_same_numbers_as_separate_operations_to_the_last_rounding(precision, roundings):
    dtype = getattr(torch, precision)
    hidden = (100 * torch.randn(64, 512)).to(dtype).requires_grad_()
    weight = (1 + torch.randn(512) / 10).to(dtype).requires_grad_()
    direction = torch.randn(64, 512).to(dtype)
    results = []
    for norm in (rms_norm, separate_rms_norm):
        normed = norm(hidden, weight, 1e-5)
        assert normed.dtype is dtype
        results.append((normed, *torch.autograd.grad(normed, (hidden, weight), direction)))
    ours, theirs = results
    width = torch.finfo(dtype).eps
    torch.testing.assert_close(ours[0], theirs[0], rtol=roundings * width, atol=0.0)
    torch.testing.assert_close(ours[1], theirs[1], rtol=4 * width, atol=4 * width * float(theirs[1].abs().max()))
    torch.testing.assert_close(ours[2], theirs[2], rtol=4 * width, atol=8 * width * float(theirs[2].abs().max()))


def test_large_values_do_not_overflow_in_16_bits():
    normed = rms_norm(torch.full((1, 64), 60000.0, dtype=torch.float16), torch.ones(64, dtype=torch.float16), 1e-5)
    assert (normed == 1).all()


def test_autocast_does_not_widen_16_bits(monkeypatch):
    modes = []
    plain = choice.functional.rms_norm
    monkeypatch.setattr(
        choice.functional, "rms_norm", lambda *given: modes.append(torch.is_autocast_enabled("cpu")) or plain(*given)
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = torch.randn(2, 64, dtype=torch.bfloat16)
        assert choice.rms_norm(hidden, torch.ones(64, dtype=torch.bfloat16), 1e-5).dtype is torch.bfloat16
    assert modes == [False]


@pytest.mark.parametrize(("fused", "count"), [(("rms_norm",), 5), ((), 0)])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("family", ["llama", "baichuan"])
def test_every_norm_of_a_model_is_one_operation_if_fused(program, family, precision, fused, count):
    model = {} if family == "llama" else program.BAICHUAN
    with default_dtype(DTYPES[precision]):
        built = construct_model(program.make_spec({"framework": "pytorch", "model": model}), Kernels(fused))
    names = {name for name, _ in built.named_parameters() if "norm" in name}
    assert names == {
        "model.norm.weight",
        *(f"model.layers.{layer}.{name}_layernorm.weight" for layer in (0, 1) for name in ("input", "post_attention")),
    }
    with profile() as operations, warnings.catch_warnings():
        warnings.simplefilter("error")  # such as: cannot dispatch to the fused implementation
        built(torch.randint(0, 512, (1, 16)))
    averages = operations.key_averages()
    assert sum(average.count for average in averages if average.key == "aten::rms_norm") == count
    assert sum(average.count for average in averages if average.key == "aten::rsqrt") == 5


@pytest.mark.parametrize("fused", [(), ("rms_norm",)])
def test_a_small_weight_that_1_is_added_to_counts_in_16_bits(fused):
    hidden = torch.randn(4, 64)
    weight = torch.full((64,), 0.003)
    exact = Kernels(fused).rms_norm(hidden, weight, 1e-6, offset=True)
    found = Kernels(fused).rms_norm(hidden.bfloat16().float(), weight.bfloat16(), 1e-6, offset=True)
    torch.testing.assert_close(found, exact, rtol=0.01, atol=0.0)
    rounded = Kernels(fused).rms_norm(hidden.bfloat16(), weight.bfloat16(), 1e-6, offset=True)
    assert rounded.dtype is torch.bfloat16
    ratio = found / Kernels(fused).rms_norm(hidden.bfloat16().float(), torch.zeros(64), 1e-6, offset=True)
    assert ratio.mean().item() == pytest.approx(1.003, abs=1e-4)


def gradients(function, *inputs):
    """A function's output and the gradients of its inputs, for a gradient that is not the same everywhere."""
    inputs = [one.detach().clone().requires_grad_() for one in inputs]
    output = function(*inputs)
    output.backward(torch.linspace(-1, 1, output.numel()).view_as(output).to(output.dtype))
    return [output.detach(), *(one.grad for one in inputs)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_swiglu_and_rope_are_the_separate_operations(dtype):
    dtype = getattr(torch, dtype)
    fused, separate = Kernels(fused=("rope", "swiglu")), Kernels()
    close = {"atol": 1e-5, "rtol": 1e-5} if dtype is torch.float32 else {"atol": 4e-2, "rtol": 2e-2}
    gate, up = torch.randn(2, 2, 9, 24, dtype=dtype)
    expected = gradients(separate.swiglu, gate, up)
    torch.testing.assert_close(gradients(fused.swiglu, gate, up), expected, **close)
    facts = replace(whole_library().model("llama_tiny"), head_width=8)
    cosines, sines = Rotary(facts, windowed=False)(9, dtype)
    heads = torch.randn(2, 9, 3, 8, dtype=dtype).transpose(1, 2)  # as projections give them
    expected = gradients(lambda states: separate.rotate(states, cosines, sines), heads)
    turned = gradients(lambda states: fused.rotate(states, cosines, sines), heads)
    torch.testing.assert_close(turned, expected, **close)
    assert turned[0].stride() == heads.stride()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("parts", [1, 3])
def test_linear_cross_entropy_is_projection_and_loss(monkeypatch, dtype, parts):
    dtype = getattr(torch, dtype)
    monkeypatch.setitem(cross_entropy.LOGIT_BYTES, "cpu", -(-2 * 15 * 50 * 4 // parts))
    labels = torch.randint(0, 50, (2, 15))
    labels[0, 3] = labels[1, 10:] = -100
    states, weight = torch.randn(2, 15, 8, dtype=dtype), torch.randn(50, 8, dtype=dtype)
    expected = gradients(lambda a, b: mean_cross_entropy(a @ b.t(), labels) * 3, states, weight)
    found = gradients(lambda a, b: cross_entropy.linear_cross_entropy(a, b, labels) * 3, states, weight)
    close = {"atol": 1e-6, "rtol": 1e-5} if dtype is torch.float32 else {"atol": 1e-2, "rtol": 2e-2}
    torch.testing.assert_close(found, expected, **close)


def test_no_logits_are_kept_between_forward_and_backward():
    kept = []
    states, weight = torch.randn(300, 8, requires_grad=True), torch.randn(500, 8)
    with torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one.numel()) or one, lambda one: one):
        linear_cross_entropy(states, weight, torch.randint(0, 500, (300,))).backward()
    assert max(kept) == states.numel()  # nor is a gradient made for a weight that is not trained


@pytest.mark.parametrize("operation", ["rope", "swiglu"])
def test_operations_are_registered_as_torch_wants_them(operation):
    gate, up = (torch.randn(2, 3, 4, 8, requires_grad=True) for _ in range(2))
    turned = (gate, torch.randn(4, 8), torch.randn(4, 8), False, False)
    function, arguments = (rope, turned) if operation == "rope" else (swiglu, (gate, up, False))
    torch.library.opcheck(
        function, arguments, test_utils=("test_schema", "test_faketensor", "test_autograd_registration")
    )


@pytest.mark.parametrize("family", ["llama", "rope", "alibi"])
def test_a_model_learns_the_same_with_fused_operations(program, family):
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
