"""Facts about torch that the core asks of every framework built on it."""

from __future__ import annotations

from llmperf.types import Facts


def torch_facts(*packages: str) -> Facts:
    """Variables, waiting calls and packages of torch, and further packages."""
    return Facts(
        environment_names=("HF_HUB_OFFLINE", "PYTORCH_ALLOC_CONF", "TOKENIZERS_PARALLELISM"),
        environment_prefixes=("GLOO_", "TORCH_NCCL_"),
        waiting_frames=(
            "torch/distributed/",
            "torch/nn/parallel/distributed.py",
            "torch/cuda/__init__.py",
            "_engine_run_backward",
        ),
        packages=("torch", "tokenizers", "triton", *packages),
    )
