"""Effect of rounding on the first losses of sequences, which the bounds of the spot check come from.

`MODEL...`: the trained decoder in each recipe against the reference in float64, 8 sequences of 128 tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from llmperf import library
from llmperf.tokens.sources import SyntheticTokens
from llmperf.types import Contract, Model, RunSpec
from llmperf_pytorch.kernels.choice import Kernels
from llmperf_pytorch.models import build_model
from llmperf_verify.reference.decoder import first_losses

SEED, SEQUENCES, SEQ_LEN = 5, 8, 128
RECIPES = ("fp32", "bf16", "bf16_pure", "fp16", "fp8_tensorwise", "fp8_rowwise", "fp8_blockwise")
FP8_MULTIPLE = 128


def rounding(name: str) -> None:
    """Print the largest and the mean difference of each recipe, as 16-bit weights and under autocast."""
    model = library().model(name)
    contract, tokens = drawn(model, SEQ_LEN, SEQUENCES)
    exact = first_losses(model, contract, tokens, dtype=np.float64)
    print(f"{name}: loss {exact.mean():.4f}, spread {exact.std(ddof=1):.1e}")
    for recipe in RECIPES:
        if recipe.startswith("fp8") and (model.mixture is not None or model.hidden_size % FP8_MULTIPLE):
            continue
        differences = np.array(list(trained_losses(model, replace(contract, precision=recipe), tokens))) - exact
        print(f"  {recipe:15} largest {abs(differences).max():.1e}, mean {differences.mean():+.1e}", flush=True)


def drawn(model: Model, seq_len: int, count: int) -> tuple[Contract, np.ndarray]:
    """A contract and synthetic sequences."""
    contract = replace(library().case("default").contract, model=model.name, seq_len=seq_len, seed=SEED)
    samples = SyntheticTokens(model.vocab_size, seq_len, SEED)
    return contract, np.stack([samples.at(place) for place in range(count)])


def trained_losses(model: Model, contract: Contract, tokens: np.ndarray) -> Iterator[float]:
    """The loss of each sequence by the decoder that llmperf_pytorch trains."""
    case = library().case("default")
    tuning = replace(case.tuning, emulate_precision=contract.precision.startswith("fp8"))
    spec = RunSpec(case=case.name, title=case.title, contract=contract, tuning=tuning, model=model, data=case.data)
    module = build_model(spec, torch.device("cpu"), Kernels(fused=("rms_norm",))).eval()
    reduced = torch.float16 if contract.precision == "fp16" else torch.bfloat16
    autocast = contract.precision not in ("fp32", "bf16_pure")
    for row in torch.from_numpy(tokens):
        with torch.no_grad(), torch.autocast("cpu", reduced, enabled=autocast):
            logits = module(row[None, :-1])
        yield float(torch.nn.functional.cross_entropy(logits[0].float(), row[1:]))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rounding(name)
