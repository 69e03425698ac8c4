"""Adapted projections compute what peft's do, with fewer passes over their activations."""

import copy

import pytest
from llmperf import library
from llmperf.accounting.parameters import count_parameters, lora_parameters
from llmperf.files.json_files import builtins
from llmperf_lora.adapters import LeanLinear, make_lean
from torch.utils._python_dispatch import TorchDispatchMode

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")


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


EVERY = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LATENT = ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
TARGETS = {
    "llama3_tiny": EVERY, "gemma3_tiny": EVERY, "qwen3_moe_tiny": EVERY[:4], "gpt_oss_tiny": EVERY[:4],
    "deepseek_v3_tiny": LATENT,
}  # fmt: skip


def task(name, lr=3e-3, **tuning):
    lora = {"rank": 4, "alpha": 16, "dropout": 0.0, "target_modules": TARGETS[name]}
    contract = {"model": name, "steps": 6, "seq_len": 48, "optimizer": {"lr": lr}, "lora": lora}
    return {
        "framework": "lora",
        "model": builtins(library().model(name)),
        "contract": contract,
        "tuning": {"micro_batch": 2, **tuning},
    }


def test_adapters_train_as_counted_and_frozen_weights_stay(program, train):
    alone = {(name, lr): {**task(name, lr), "ranks": 1} for name in TARGETS for lr in (3e-3, 0.0)}
    shared = {name: task(name, sharding_stage=2, micro_batch=1) for name in ("gpt_oss_tiny", "deepseek_v3_tiny")}
    results = train([*alone.values(), *shared.values()], ranks=2)
    found = dict(zip(alone, results, strict=False))
    for name in TARGETS:
        spec, result = program.make_spec(task(name)), found[name, 3e-3]
        assert result["losses"][0] == found[name, 0.0]["losses"][0], name
        assert sum(result["losses"][-2:]) < sum(found[name, 0.0]["losses"][-2:]) - 0.01, name
        assert result["frozen_unchanged"], name
        assert result["frozen_gradients"] == 0, name
        assert result["trained"] == lora_parameters(spec.model, spec.contract.lora), name
        assert result["frozen"] == count_parameters(spec.model).total, name
    for name, result in zip(shared, results[len(alone) :], strict=True):
        assert result["losses"] == pytest.approx(found[name, 3e-3]["losses"], abs=1e-4), name
