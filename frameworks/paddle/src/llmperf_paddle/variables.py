"""The variables that Paddle reads in each rank; the agent fills in the braces. Imports no paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.types import Layout, Probe, RunSpec

BACKENDS = {"rccl": "nccl", "hccl": "xccl"}
"""Paddle's names of collective backends, where they differ from the vendor's."""
SELECTED = {"nccl": "FLAGS_selected_gpus", "bkcl": "FLAGS_selected_xpus"}
"""The variable that tells a rank which of the node's devices is its own."""


def rank_variables(spec: RunSpec, probe: Probe, layout: Layout) -> dict[str, str]:
    """Variables that `paddle.distributed.launch` would set, without those that fleet does not read.

    The ranks meet at the first endpoint, the agent's MASTER_ADDR and MASTER_PORT. The others are names: fleet wants one
    for each rank, and nothing listens there.
    """
    backend = BACKENDS.get(probe.offers.collective_backend, probe.offers.collective_backend)
    master = "{master_addr}:{master_port}"
    names = [f"{{master_addr}}:{rank}" for rank in range(1, layout.world_size)]
    variables = {
        "PADDLE_TRAINER_ID": "{rank}",
        "PADDLE_TRAINERS_NUM": "{world_size}",
        "PADDLE_RANK_IN_NODE": "{local_rank}",
        "PADDLE_LOCAL_SIZE": "{local_world_size}",
        "PADDLE_GLOBAL_SIZE": "{world_size}",
        "PADDLE_MASTER": master,
        "PADDLE_CURRENT_ENDPOINT": "{master_addr}:{rank}",
        "PADDLE_TRAINER_ENDPOINTS": ",".join([master, *names]),
        "PADDLE_DISTRI_BACKEND": backend,
    }
    return variables | _device_variables(spec, backend)


def _device_variables(spec: RunSpec, backend: str) -> dict[str, str]:
    if backend == "gloo":
        return {"PADDLE_P2P_SYNC_SEND": "1"}  # read when paddle is imported; gloo.py needs it
    if backend not in SELECTED:
        return {}
    variables = {SELECTED[backend]: "{local_rank}"}
    if backend == "nccl" and spec.contract.precision == "fp32":
        variables["NVIDIA_TF32_OVERRIDE"] = "0"  # Paddle lets cuBLAS compute float32 products in TF32 unless told
    return variables
