"""Two looks of the acceptance into torch on a device: `gpu_probes.py waits|attention DEVICE REPORT.json`.

`attention`: the kernel that `scaled_dot_product_attention` chooses for shapes of known models.
`waits`: where a training step makes the host wait for its GPU. torch warns of each operation that waits
(`torch.cuda.set_sync_debug_mode`); the warnings of one step, after two others, are counted by the line of the caller.
On a CPU, where nothing can wait, the trainers only run.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

SHARED = Path(__file__).parents[1] / "frameworks" / "pytorch" / "tests" / "rank_program.py"
LORA = {"rank": 4, "alpha": 16, "dropout": 0.0, "target_modules": ["q_proj", "v_proj"]}
TASKS = [
    *(("pytorch", precision, 0) for precision in ("fp32", "bf16", "fp16")),
    *(("zero", "bf16", stage) for stage in (1, 2, 3)),
    *(("lora", precision, 0) for precision in ("bf16", "fp16")),
]
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


def waits_of_a_step(program: Any, framework: str, precision: str, stage: int, device: str) -> dict[str, int]:
    """How often each line makes the host wait in one step."""
    import torch

    contract = {"precision": precision, **({"lora": LORA} if framework == "lora" else {})}
    tuning = {"micro_batch": 2, "sharding_stage": stage}
    plan = program.make_plan({"framework": framework, "device": device, "contract": contract, "tuning": tuning})
    found: Counter[str] = Counter()

    def note(message: Any, *_: Any, **__: Any) -> None:
        if "synchroniz" in str(message):
            found[caller()] += 1

    with program.plugin_of({"framework": framework}).llmperf_build_trainer(plan, program.TestDevice(device)) as trainer:
        for _ in range(2):
            trainer.train_step()
        if device == "cpu":
            return {}
        torch.cuda.synchronize()
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = note
            torch.cuda.set_sync_debug_mode("warn")
            trainer.train_step()
            torch.cuda.set_sync_debug_mode("default")
    return dict(found)


def caller() -> str:
    """The innermost line outside torch."""
    for frame in reversed(traceback.extract_stack()[:-2]):
        if not any(part in frame.filename for part in ("site-packages/torch/", "gpu_probes.py", "/warnings.py")):
            return f"{frame.filename.split('site-packages/')[-1].split('/src/')[-1]}:{frame.lineno}"
    return "unknown"


def waits(device: str) -> dict[str, dict[str, int]]:
    """By trainer: how often each line makes the host wait in one step."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    kind = "cpu" if device == "cpu" else "cuda"
    os.environ |= {**ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "DS_ACCELERATOR": kind}
    sys.path.insert(0, str(SHARED.parent))
    program = importlib.import_module(SHARED.stem)  # which makes trainers for tests
    import torch.distributed

    torch.distributed.init_process_group(program.backend_of(device))
    tasks = [task for task in TASKS if not (device == "cpu" and task[1] == "fp16")]
    found = {}
    for framework, precision, stage in tasks:
        found[f"{framework} {stage} {precision}"] = waits_of_a_step(program, framework, precision, stage, device)
    return found


def main() -> None:
    wanted, device, report = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    found: object = (
        waits(device)
        if wanted == "waits"
        else {
            name: chosen(device, **shape)
            for name, shape in SHAPES.items()  # type: ignore[arg-type]
        }
    )
    report.write_text(json.dumps(found, indent=1))
    sys.stdout.flush()
    os._exit(0)  # native threads of the frameworks have aborted while the interpreter was taken apart


if __name__ == "__main__":
    main()
