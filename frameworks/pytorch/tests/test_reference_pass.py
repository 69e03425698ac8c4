"""The forward pass of `llmperf_verify.reference` in NumPy gives the losses of the decoder that is trained."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from llmperf import library
from llmperf_pytorch.decoder.model import LanguageModel
from llmperf_pytorch.kernels.choice import NONE_FUSED
from llmperf_torchkit.weights import fill_weights
from llmperf_verify.reference.decoder import first_losses

pytestmark = pytest.mark.slow

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
