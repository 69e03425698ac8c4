"""Kernels that torch's `scaled_dot_product_attention` chooses for shapes of known models: `gpu_attention.py DEVICE`.

Prints a JSON document: name of the shape to the kernel that it takes.
"""

from __future__ import annotations

import json
import sys
from typing import Any

SHAPES = {
    "TinyLlama 1.1B, causal": {"heads": 32, "kv_heads": 4, "head_dim": 64},
    "Llama 3 8B, causal": {"heads": 32, "kv_heads": 8, "head_dim": 128},
    "Llama 2 7B, causal": {"heads": 32, "kv_heads": 32, "head_dim": 128},
    "Gemma 3 12B, causal": {"heads": 16, "kv_heads": 8, "head_dim": 256},
    "Gemma 3 12B, window as a mask": {"heads": 16, "kv_heads": 8, "head_dim": 256, "masked": True},
    "gpt-oss 20B, window as a mask": {"heads": 64, "kv_heads": 8, "head_dim": 64, "masked": True},
}
TOKENS = {"cpu": 64}
"""By kind of device; 2048 otherwise."""


def chosen(device: str, heads: int, kv_heads: int, head_dim: int, masked: bool = False) -> str:
    """The kernel for one shape in bf16."""
    import torch
    from torch.nn.attention import SDPBackend

    tokens = TOKENS.get(torch.device(device).type, 2048)
    made: dict[str, Any] = {"device": device, "dtype": torch.bfloat16, "requires_grad": True}
    query = torch.randn(1, heads, tokens, head_dim, **made)
    key, value = (torch.randn(1, kv_heads, tokens, head_dim, **made) for _ in range(2))
    mask = None
    if masked:
        distance = torch.arange(tokens, device=device)[:, None] - torch.arange(tokens, device=device)
        mask = (distance >= 0) & (distance < 128)
    kernel = torch._fused_sdp_choice(
        query, key, value, attn_mask=mask, is_causal=not masked, enable_gqa=kv_heads != heads
    )
    return str(SDPBackend(kernel).name)


def main() -> None:
    (device,) = sys.argv[1:]
    print(json.dumps({name: chosen(device, **shape) for name, shape in SHAPES.items()}))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
