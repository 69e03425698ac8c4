"""The statements of docs/training-contract.md: what torch computes here against the NumPy reference of the kit."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import llmperf
import numpy as np
import pytest
import torch
from llmperf import library
from llmperf.accounting.flops import count_flops, recomputed_share
from llmperf.cases.library import whole_library
from llmperf.types import Tuning, Workload
from llmperf_pytorch.decoder.model import LanguageModel
from llmperf_pytorch.kernels.choice import NONE_FUSED, Kernels, rms_norm
from llmperf_pytorch.kernels.cross_entropy import linear_cross_entropy
from llmperf_pytorch.models import blocks_of, recompute_blocks
from llmperf_testing import reference
from llmperf_torchkit.losses import SequenceLosses, StepSums, mean_cross_entropy, recorded_in
from llmperf_torchkit.weights import count_parameters, fill_weights
from llmperf_verify.reference.decoder import first_losses
from torch.utils._python_dispatch import TorchDispatchMode

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


def recorded(compute):
    """The loss and the losses of sequences."""
    losses = SequenceLosses()
    with recorded_in(losses):
        loss = compute()
    losses.copy()
    return loss, losses.values()


def trained(program, monkeypatch, warmup_steps, **tuning):
    """Figures of a few steps; without a warm-up step no losses of sequences are computed."""
    monkeypatch.setenv("RANK", "0")
    contract = {"steps": 3, "warmup_steps": warmup_steps, "seq_len": 16, "precision": tuning.pop("precision", "fp32")}
    task = {"framework": "pytorch", "contract": contract, "tuning": {"micro_batch": 2, **tuning}}
    return program.train(task, 1)


@pytest.mark.parametrize(("precision", "fused_ops"), [("fp32", []), ("bf16", ["cross_entropy"])])
def test_training_is_the_same_to_the_last_bit(program, monkeypatch, fused_ops, precision):
    settings = {"fused_ops": fused_ops, "precision": precision}
    without = trained(program, monkeypatch, 0, **settings)
    with_losses = trained(program, monkeypatch, 1, **settings)
    assert without["sequences"] == []
    assert len(with_losses["sequences"]) == 4
    assert (with_losses["losses"], with_losses["norms"]) == (without["losses"], without["norms"])


def test_padding_is_left_out():
    torch.manual_seed(0)
    states, weight = torch.randn(3, 8, 4), torch.randn(16, 4)
    labels = torch.randint(16, (3, 8))
    labels[0, 5:] = labels[2, 1:] = -100
    rows = zip(states, labels, strict=True)
    expected = [float(torch.nn.functional.cross_entropy(row @ weight.T, wanted)) for row, wanted in rows]
    mean, losses = recorded(lambda: mean_cross_entropy(states @ weight.T, labels))
    fused_mean, fused_losses = recorded(lambda: linear_cross_entropy(states, weight, labels))
    assert losses == pytest.approx(expected, rel=1e-6)
    assert fused_losses == pytest.approx(expected, rel=1e-6)
    weighted = sum(loss * learnt for loss, learnt in zip(losses, (5, 8, 1), strict=True)) / 14
    assert float(mean) == pytest.approx(weighted, rel=1e-6)
    assert float(fused_mean) == pytest.approx(weighted, rel=1e-6)


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


def task(contract=None, model=None, options=None, **tuning):
    contract = {"global_batch": 8, "steps": 4, **(contract or {})}
    tuning = {"micro_batch": 1, **tuning}
    return {
        "framework": "pytorch", "model": model or {}, "contract": contract, "tuning": tuning, "options": options or {},
    }  # fmt: skip


def same(results, expected):
    """Each result is that of one process, of the model that its name ends with."""
    for name, result in results.items():
        wanted = expected[next((model for model in ("tied", "ALiBi") if model in name), "")]
        tolerance = 0.02 if "16" in name else 1e-5
        assert result["losses"] == pytest.approx(wanted["losses"], abs=tolerance), name
        assert result["sequences"] == pytest.approx(wanted["sequences"], abs=tolerance), name
        if "16" not in name:
            assert result["norms"] == pytest.approx(wanted["norms"], abs=3e-5), name


def test_shared_models_train_as_one_process_does(program, train):
    alibi = {**program.BAICHUAN, "position_encoding": "alibi"}
    whole = {**task(micro_batch=8), "ranks": 1}
    tied = {"tied_embeddings": True}
    whole_tied = {**task(model=tied, micro_batch=8), "ranks": 1}
    whole_alibi = {**task(model=alibi, micro_batch=8), "ranks": 1}
    bf16 = {"precision": "bf16"}
    shared = {
        "DDP": task(),
        "DDP, two sequences at once": task(micro_batch=2),
        "DDP, recomputed": task(gradient_checkpointing=True),
        "DDP, tied": task(model=tied, micro_batch=2),
        "DDP, ALiBi, recomputed": task(model=alibi, gradient_checkpointing=True),
        "DDP, bf16": task(bf16),
        "DDP, ALiBi, bf16": task(bf16, model=alibi, micro_batch=2),
        "stage 1": task(sharding_stage=1),
        "stage 2": task(sharding_stage=2),
        "stage 3": task(sharding_stage=3, options={"prefetch": 2}),
        "replicas of stage 2": task(sharding_stage=2, sharding_degree=2),
        "replicas of stage 3, recomputed": task(sharding_stage=3, sharding_degree=2, gradient_checkpointing=True),
        "stage 3, operations recomputed": task(sharding_stage=3, gradient_checkpointing=True, recompute="operations"),
        "stage 3, bf16": task(bf16, sharding_stage=3),
        "stage 3, fp16": {**task(sharding_stage=3), "computed_in": "fp16"},
        "stage 1, bf16, added up in fp32": task(bf16, sharding_stage=1, accumulation_dtype="fp32"),
        "stage 2, ALiBi": task(model=alibi, sharding_stage=2),
        "stage 3, tied": task(model=tied, sharding_stage=3),
    }
    one, one_alibi, one_tied, *results = train([whole, whole_alibi, whole_tied, *shared.values()], ranks=4)
    found = dict(zip(shared, results, strict=True))
    same(found, {"": one, "ALiBi": one_alibi, "tied": one_tied})
    assert found["DDP, bf16"]["losses"] != pytest.approx(one["losses"], abs=1e-7)
    assert one["tokens"] == 4 * found["DDP"]["tokens"] == 4 * 8 * 64
    held = {name: result["moments_here"] for name, result in found.items()}
    assert held["stage 1"] == held["stage 3"] == one["moments_here"] // 4
    assert held["replicas of stage 2"] == one["moments_here"] // 2


def test_models_learn(program, train):
    long = {"steps": 60, "optimizer": {"lr": 1e-2, "clip_norm": None}}
    families = [{}, program.BAICHUAN, {**program.BAICHUAN, "position_encoding": "alibi"}]
    for found in train([task(long, {**family, "vocab_size": 64}, micro_batch=8) for family in families], ranks=1):
        assert found["losses"][0] > 4.0
        assert 1.3 < found["losses"][-1] < 2.5
        assert found["norms"] == [None] * 60


SEQ_LEN, SEQUENCES = 72, 2
KINDS = (
    *("llama3_1_8b", "baichuan2_7b", "baichuan2_13b", "chatglm3_6b", "qwen3_0_6b", "qwen3_8b", "gemma3_12b"),
    *("gpt_oss_20b", "mixtral_8x7b", "qwen1_5_moe_a2_7b", "qwen3_30b_a3b", "deepseek_v2_lite", "deepseek_v3"),
)
OTHERS = sorted(set(library().paths("models")) - set(KINDS))


def shrunk(name):
    """A shipped model with all its facts and small sizes."""
    model = library().model(name)
    heads = 4 if model.kv_heads < model.attention_heads else 3
    sizes = {
        "layers": 5, "hidden_size": 16 * heads, "intermediate_size": 40, "vocab_size": 101, "attention_heads": heads,
        "kv_heads": 2 if model.kv_heads < model.attention_heads else heads,
        "head_width": None if model.head_width is None else 24, "window": None if model.window is None else 17,
        "multi_token_layers": 0, "initializer_std": 0.1,
    }  # fmt: skip
    if model.mixture is not None:
        groups = min(model.mixture.groups, 4)
        mixture = {"experts": 8, "top_k": 2, "expert_width": 20, "groups": groups, "shared_width": None}
        sizes["mixture"] = replace(model.mixture, **mixture, top_groups=max(1, groups // 2))
    if model.latent is not None:
        rank = None if model.latent.q_rank is None else 12
        sizes["latent"] = replace(model.latent, kv_rank=10, q_rank=rank, rope_width=8, nope_width=12, value_width=14)
    return replace(model, **sizes)


class TorchWeights:
    """The parameters of a module as they are; those of all experts are one tensor."""

    def __init__(self, module):
        self._values = {name: value.detach().numpy() for name, value in module.named_parameters()}

    def rows(self, name, shape, start, stop):
        matrix = self._of_expert(name, ".weight", "") if ".experts." in name else self._values[name]
        assert matrix.shape == shape
        return matrix[start:stop]

    def vector(self, name, size):
        return self._of_expert(name, ".bias", "_bias") if ".experts." in name else self._values[name]

    def _of_expert(self, name, ending, stacked):
        layer, expert, projection = name.removesuffix(ending).rsplit(".", 2)
        return self._values[f"{layer}.{projection}{stacked}"][int(expert)]


def expected_losses(module, sequences):
    tokens = torch.from_numpy(sequences)
    with torch.inference_mode():
        logits = module(tokens[:, :-1].clamp(min=0))
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
        return (losses.sum(1) / (tokens[:, 1:] >= 0).sum(1)).numpy()


def contract_of(routing="learned"):
    contract = library().case("default").contract
    return replace(contract, seed=7, seq_len=SEQ_LEN, routing=routing)


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", [*KINDS, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_pass_gives_the_losses_of_the_trained_decoder(name, double):
    model = shrunk(name)
    sequences = np.random.default_rng(3).integers(0, model.vocab_size, (SEQUENCES, SEQ_LEN + 1))
    sequences[0, 50:] = -100
    for routing in ("learned", "balanced", "skewed") if model.mixture else ("learned",):
        contract = contract_of(routing)
        module = LanguageModel(model, "eager", NONE_FUSED, contract).eval()
        fill_weights(module, model, contract.seed)
        expected = expected_losses(module, sequences)
        assert first_losses(model, contract, sequences, dtype=np.float64) == pytest.approx(expected, abs=1e-6)
        assert first_losses(model, contract, sequences) == pytest.approx(expected, abs=1e-5)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.uniform_(-0.3, 0.3)
        expected = expected_losses(module, sequences)
        computed = first_losses(model, contract, sequences, dtype=np.float64, weights=TorchWeights(module))
        assert computed == pytest.approx(expected, abs=1e-6)
