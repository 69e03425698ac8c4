"""Fused operations against separate ones, forward and backward, side by side on this machine.

The ways of each operation alternate, and the fastest of their repetitions counts. `compiled` is the kernel of
`torch.compile`; for `block` a whole transformer block.

./dev python benchmarks/kernels.py
./dev python benchmarks/kernels.py --device cuda --dtype bf16 --tokens 8192 --width 4096 --vocabulary 32000
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from llmperf.types import Model
from llmperf_pytorch.decoder.model import LanguageModel
from llmperf_pytorch.decoder.positions import Rotary
from llmperf_pytorch.kernel_limits import FUSED_OPS
from llmperf_pytorch.kernels.choice import Kernels
from llmperf_pytorch.kernels.cross_entropy import linear_cross_entropy
from llmperf_torchkit.compiled import FAILED
from llmperf_torchkit.losses import mean_cross_entropy
from llmperf_torchkit.precision import DTYPES

HEAD_WIDTH = 64
Work = Callable[[], torch.Tensor]


def seconds(works: Mapping[str, Work], inputs: list[torch.Tensor], repetitions: int) -> dict[str, float]:
    """Fastest forward and backward pass of each, after one that compiles and warms up."""
    device = inputs[0].device

    def once(work: Work) -> float:
        for tensor in inputs:
            tensor.grad = None
        wait(device)
        begin = time.perf_counter()
        work().sum().backward()
        wait(device)
        return time.perf_counter() - begin

    for work in works.values():
        once(work)
    if FAILED:
        raise SystemExit(
            f"{', '.join(sorted(FAILED))}: torch.compile failed; see above, or leave it out: --no-compiler"
        )
    fastest = dict.fromkeys(works, math.inf)
    for _ in range(repetitions):
        for name, work in works.items():
            fastest[name] = min(fastest[name], once(work))
    return fastest


def wait(device: torch.device) -> None:
    """Until the device has done all its work."""
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()


def variants(compiled: bool) -> dict[str, Kernels]:
    """Separate operations first."""
    fused = Kernels(fused=FUSED_OPS)
    return {
        "separate": Kernels(),
        "fused": fused,
        **({"compiled": replace(fused, by_compiler=True)} if compiled else {}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="fp32", choices=list(DTYPES))
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--no-compiler", action="store_true", help="leave out what torch.compile makes")
    options = parser.parse_args()
    dtype, compiled = DTYPES[options.dtype], not options.no_compiler
    torch.manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=options.device, dtype=dtype, requires_grad=True)

    tokens, width, inner = options.tokens, options.width, options.width * 8 // 3 // 16 * 16
    gate, up = drawn(1, tokens, inner), drawn(1, tokens, inner)
    ways = variants(compiled)
    products = {name: lambda k=kernels: k.swiglu(gate, up) for name, kernels in ways.items()}
    report("swiglu", seconds(products, [gate, up], options.repetitions))
    heads = drawn(1, tokens, width // HEAD_WIDTH, HEAD_WIDTH)
    with torch.device(options.device):
        cosines, sines = Rotary(block_facts(tokens, width, inner), windowed=False)(tokens, dtype)
    turns = {name: lambda k=k: k.rotate(heads.transpose(1, 2), cosines, sines) for name, k in ways.items()}
    report("rope", seconds(turns, [heads], options.repetitions))
    states, weight = drawn(1, tokens, width), drawn(options.vocabulary, width)
    labels = torch.randint(0, options.vocabulary, (1, tokens), device=options.device)
    losses = {
        "separate": lambda: mean_cross_entropy(states @ weight.t(), labels),
        "fused": lambda: linear_cross_entropy(states, weight, labels),
    }
    report("cross_entropy", seconds(losses, [states, weight], options.repetitions))
    if compiled:
        report("block", block_seconds(drawn(1, tokens, width), width, inner, options.repetitions))


def block_facts(seq_len: int, width: int, inner: int) -> Model:
    """A Llama of one block."""
    return Model(
        name="block", title="One block", family="llama", nominal_parameters=1, vocab_size=64, hidden_size=width,
        intermediate_size=inner, layers=1, attention_heads=width // HEAD_WIDTH, kv_heads=width // HEAD_WIDTH,
        max_positions=seq_len, norm_eps=1e-5, position_encoding="rope", rope_theta=10000.0, source="benchmark",
    )  # fmt: skip


def block_seconds(states: torch.Tensor, width: int, inner: int, repetitions: int) -> dict[str, float]:
    """A Llama block with separate operations, with fused ones, and compiled."""
    from llmperf_torchkit.compiled import compile_blocks

    facts = block_facts(states.shape[1], width, inner)
    works: dict[str, Work] = {}
    for name, kernels in {**variants(compiled=False), "compiled": Kernels()}.items():
        with states.device:
            model = LanguageModel(facts, "sdpa", kernels).to(states.dtype).train()
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter, std=0.02)
        block = model.model.layers[0]
        if name == "compiled":
            compile_blocks([block])
        positions = model.model.positions(states)["full"]
        works[name] = lambda block=block, positions=positions: block(states, positions)
    return seconds(works, [states], repetitions)


def report(name: str, fastest: Mapping[str, float]) -> None:
    """One line: milliseconds, and how many times as fast as separate operations."""
    base = fastest["separate"]
    parts = (f"{way} {taken * 1e3:.2f} ms ({base / taken:.2f}x)" for way, taken in fastest.items())
    print(f"{name:<14}" + ", ".join(parts), flush=True)


if __name__ == "__main__":
    main()
