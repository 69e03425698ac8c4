"""RMSNorm is one operation, or separate ones in float32 as in transformers, and computes the same."""

import warnings

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def torch():
    import torch

    torch.manual_seed(0)
    return torch


@pytest.mark.parametrize(("precision", "roundings"), [("float32", 0), ("bfloat16", 1), ("float16", 1)])
def test_the_same_numbers_as_separate_operations_to_the_last_rounding(torch, precision, roundings):
    from llmperf_pytorch.kernels.choice import rms_norm, separate_rms_norm

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


def test_large_values_do_not_overflow_in_16_bits(torch):
    from llmperf_pytorch.kernels.choice import rms_norm

    normed = rms_norm(torch.full((1, 64), 60000.0, dtype=torch.float16), torch.ones(64, dtype=torch.float16), 1e-5)
    assert (normed == 1).all()


def test_autocast_does_not_widen_16_bits(torch, monkeypatch):
    from llmperf_pytorch.kernels import choice

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
def test_every_norm_of_a_model_is_one_operation_if_fused(torch, program, family, precision, fused, count):
    from llmperf_pytorch.kernels.choice import Kernels
    from llmperf_pytorch.models import construct_model
    from llmperf_torchkit.precision import DTYPES, default_dtype
    from torch.profiler import profile

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
def test_a_small_weight_that_1_is_added_to_counts_in_16_bits(torch, fused):
    from llmperf_pytorch.kernels.choice import Kernels

    hidden = torch.randn(4, 64)
    weight = torch.full((64,), 0.003)
    exact = Kernels(fused).rms_norm(hidden, weight, 1e-6, offset=True)
    found = Kernels(fused).rms_norm(hidden.bfloat16().float(), weight.bfloat16(), 1e-6, offset=True)
    torch.testing.assert_close(found, exact, rtol=0.01, atol=0.0)
    rounded = Kernels(fused).rms_norm(hidden.bfloat16(), weight.bfloat16(), 1e-6, offset=True)
    assert rounded.dtype is torch.bfloat16
    ratio = found / Kernels(fused).rms_norm(hidden.bfloat16().float(), torch.zeros(64), 1e-6, offset=True)
    assert ratio.mean().item() == pytest.approx(1.003, abs=1e-4)
