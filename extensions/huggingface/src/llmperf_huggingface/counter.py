"""A program that counts the parameters and FLOPs of a configuration: JSON in, JSON out; nothing is downloaded.

The class of transformers that a configuration names computes a forward pass on tensors without memory, at several
lengths S. Matrix products are counted by torch.utils.flop_counter. FLOPs = a S^2 + b S + c: `a` is attention over all
pairs, `b` the products of each token, `c` what is padded once. Experts are computed by products of the chosen ones.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import Any

STEP, SHORT_STEP = 256, 16
"""Lengths are multiples of STEP, as chunks of recurrences are; of SHORT_STEP where a class computes token by token."""
MEMORY_BYTES = 8 * 2**30
RECURRENT = ("A_log", "DeltaNet", "DeltaAttention", "Lightning", "Mamba", "Rglru", "Rwkv", "LSTM")
CAVEATS = {
    "recurrences are counted by the products of their chunks alone": RECURRENT,
    "sparse attention is counted over all pairs": ("Indexer",),
    "windowed attention is counted over all pairs": ("sliding_window", "attention_chunk_size"),
}
"""What matrix products do not show, by parts of names of classes, parameters and attributes."""
ALL_EXPERTS = "experts that a token does not pass are counted, as the class computes them"
SIZES = {
    "hidden_size": "hidden_size", "intermediate_size": "intermediate_size", "layers": "num_hidden_layers",
    "attention_heads": "num_attention_heads", "kv_heads": "num_key_value_heads",
    "max_positions": "max_position_embeddings", "initializer_std": "initializer_range",
}  # fmt: skip


def main() -> None:
    """Answer the configuration on standard input."""
    if sys.path[0] == str(Path(__file__).parent):
        del sys.path[0]
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    except (ImportError, OSError, ValueError):
        pass
    warnings.filterwarnings("ignore")
    try:
        answer = counted(json.load(sys.stdin))
    except Exception as error:  # of classes of transformers
        lines = str(error).strip().splitlines() or [""]
        message = f"{type(error).__name__}: {lines[0][:200]}".removeprefix("ValueError: ")
        if isinstance(error, NotImplementedError) or "meta tensor" in message:
            message = f"its class looks at values while it computes, and counting has only shapes ({message})"
        answer = {"error": message}
    print(f"\n{json.dumps(answer)}")


def counted(values: dict[str, Any]) -> dict[str, Any]:
    """Facts of a configuration's model, the sizes that it has, and its counts."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    if (kind := values["model_type"]) not in CONFIG_MAPPING_NAMES:
        nearest = get_close_matches(str(kind), CONFIG_MAPPING_NAMES, n=1)
        raise ValueError("transformers has no such architecture" + "".join(f"; nearest: {name}" for name in nearest))
    config = AutoConfig.for_model(**values)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.float32, attn_implementation="eager", experts_implementation="batched_mm"
        )
    model.eval()
    parameters, modules = dict(model.named_parameters()), list(model.modules())  # tied parameters once
    table, head = model.get_input_embeddings().weight, model.get_output_embeddings()
    tied = head is not None and head.weight is table
    per_token, per_pair, by_module, passed = _fitted(model)
    tables = {part.weight for part in modules if isinstance(part, torch.nn.Embedding) and id(part.weight) in passed}
    looked_up = sum(weight.numel() for weight in tables if not (tied and weight is table))
    text, caveats = config.get_text_config(), set[str]()
    idle = sum(parameter.numel() for parameter in parameters.values() if id(parameter) not in passed)
    for name, module in model.named_modules():
        stacked = [weight for weight in module.parameters(recurse=False) if weight.ndim == 3]
        used = by_module.get(f"{type(model).__name__}.{name}", 0.0) / 2
        if stacked and used and type(module).__name__.endswith("Experts"):
            size = sum(parameter.numel() for parameter in module.parameters(recurse=False))
            share = used / sum(weight.numel() for weight in stacked)
            idle += round(size * (1 - share))
            if share == 1 and (getattr(text, "num_experts_per_tok", None) or math.inf) < len(stacked[0]):
                caveats.add(ALL_EXPERTS)
    names = {name.rpartition(".")[2] for name in parameters} | {type(part).__name__ for part in modules}
    attributes = [attribute for part in modules for attribute in vars(part).items()]
    names |= {key for key, value in attributes if type(value) is int and value}
    total = sum(parameter.numel() for parameter in parameters.values())
    sizes = {name: getattr(text, key, None) for name, key in SIZES.items()}
    sizes = {name: size for name, size in sizes.items() if isinstance(size, (int, float)) and size > 0}
    if sizes.get("intermediate_size") not in {width for each in parameters.values() for width in each.shape}:
        sizes.pop("intermediate_size", None)
    lists = [len(part) for part in modules if isinstance(part, torch.nn.ModuleList)]
    epsilons = [value for key, value in attributes if "eps" in key and isinstance(value, float)]
    found = {"vocab_size": table.shape[0], "hidden_size": table.shape[1], "layers": max(lists, default=1)}
    keys = {*vars(type(config)()), *config.attribute_map}
    typos = [
        (key, *get_close_matches(key, keys, n=1, cutoff=0.9)) for key in values if key not in {*keys, "model_type"}
    ]
    return {
        "notes": [f"{key}: no key of {type(config).__name__}; nearest: {near[0]}" for key, *near in typos if near],
        "facts": {**found, **sizes, "norm_eps": max(epsilons, key=epsilons.count), "tied_embeddings": tied},
        "parameters": total,
        "active_parameters": total - idle,
        "embedding_parameters": looked_up,
        "forward_flops": per_token,
        "attention_flops": per_pair,
        "caveats": [*caveats, *(text for text, parts in CAVEATS.items() if any(p in n for p in parts for n in names))],
        "counted_by": f"torch {version('torch')}, transformers {version('transformers')}",
    }


def _fitted(model: Any) -> tuple[float, float, dict[str, float], set[int]]:
    """FLOPs for each token, for each token and token before it, for each token of each module, and tensors by `id`."""
    step, seconds = STEP, list[float]()
    if (getattr(model.config.get_text_config(), "max_position_embeddings", None) or 4 * STEP) < 4 * STEP:
        step = SHORT_STEP
    for length in (SHORT_STEP, step):
        start = time.perf_counter()
        _forward_flops(model, length)
        seconds.append(time.perf_counter() - start)
    if seconds[1] > 4 * seconds[0]:  # no tensor has memory: the class computes token by token
        step = SHORT_STEP
    lengths = [step * place for place in (1, 2, 3, 4)]
    totals, by_module, passed = zip(*(_forward_flops(model, length) for length in lengths), strict=True)
    first, second, third, fourth = totals
    squares = third - 2 * second + first  # 2 a step^2
    if fourth - 3 * third + 3 * second - first:
        raise ValueError(f"FLOPs are not quadratic in the length of a sequence: {totals} at {lengths}")
    per_token = (second - first) / step - 3 * squares / (2 * step)
    modules = {name: sum(flops.values()) / lengths[-1] for name, flops in by_module[-1].items()}
    return per_token, squares / (2 * step * step), modules, passed[-1]


def _forward_flops(model: Any, length: int) -> tuple[int, dict[str, Any], set[int]]:
    """FLOPs of one forward pass, of each module by operation, and the `id` of each tensor in it."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import masking_utils

    passed = set[int]()

    class Passed(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            passed.update(map(id, tree_leaves((args, kwargs))))
            return function(*args, **(kwargs or {}))

    masking_utils.find_packed_sequence_indices = lambda *_, **__: None  # looks at values, which there are none of
    true = torch.Tensor.__bool__
    torch.Tensor.__bool__ = lambda tensor: False if tensor.is_meta else true(tensor)
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter, Passed():
            model(input_ids=torch.zeros(1, length, dtype=torch.long, device="meta"), use_cache=False)
    finally:
        torch.Tensor.__bool__ = true
    return counter.get_total_flops(), counter.get_flop_counts(), passed


if __name__ == "__main__":
    main()
