"""The ranks of a layout as torch's device mesh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

if TYPE_CHECKING:
    from llmperf.types import Layout

DIMENSIONS = ("pipeline", "replicate", "shard", "tensor")
"""Slowest first: neighbouring ranks are tensor parallel, then share one copy of the sharded state, then hold replicas,
then are stages of a pipeline, as in `Layout.rank_order`."""


def rank_mesh(layout: Layout, device_type: str) -> DeviceMesh:
    """All ranks; data parallelism is divided into replicas and the ranks that share one copy of the sharded state."""
    shards = layout.sharding_degree if layout.sharding_stage else 1
    sizes = (layout.pipeline_parallel, layout.data_parallel // shards, shards, layout.tensor_parallel)
    return init_device_mesh(device_type, sizes, mesh_dim_names=DIMENSIONS)


def expert_mesh(layout: Layout, device_type: str) -> DeviceMesh:
    """The data-parallel ranks: neighbouring ones share the experts of each mixture, others hold the same ones."""
    sizes = (layout.data_parallel // layout.expert_parallel, layout.expert_parallel)
    return init_device_mesh(device_type, sizes, mesh_dim_names=("replicate", "experts"))
