"""Layouts of ranks, which share the model and the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from llmperf.types.frozen import dataclass
from llmperf.types.units import Positive

RankDimension = Literal["tensor", "context", "data", "pipeline"]
"""The dimensions that the ranks are arranged in. Their degrees multiply to the world size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Degrees of parallelism: world = tensor x context x data x pipeline parallel = nodes x devices per node."""

    nodes: Positive
    """Machines."""
    devices_per_node: Positive
    """Ranks on each node. Each has one device, or a share of one."""
    tensor_parallel: Positive
    """Ranks that split each layer."""
    pipeline_parallel: Positive
    """Stages that the layers are divided into."""
    data_parallel: Positive
    """Groups of ranks that see different sequences."""
    context_parallel: Positive = 1
    """Ranks that split each sequence."""
    expert_parallel: Positive = 1
    """Ranks that split the experts of a mixture; a divisor of data x context parallel."""
    sequence_parallel: bool = False
    """The tensor-parallel ranks also split the sequence in norms and dropout (Korthikanti et al. 2022)."""
    sharding_stage: Literal[0, 1, 2, 3] = 0
    """0: replicated; 1: optimiser states; 2: and gradients; 3: and parameters."""
    sharding_degree: Positive = 1
    """Ranks that share one copy of the sharded state; a divisor of data x context parallel."""
    rank_order: tuple[RankDimension, ...] = ("tensor", "context", "data", "pipeline")
    """Order in which ranks are numbered: neighbours differ in the first dimension, then in the second, and so on."""

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.nodes * self.devices_per_node

    @property
    def degrees(self) -> Mapping[RankDimension, int]:
        """The degree of each dimension that ranks are arranged in."""
        return {
            "tensor": self.tensor_parallel,
            "context": self.context_parallel,
            "data": self.data_parallel,
            "pipeline": self.pipeline_parallel,
        }

    def node_of(self, rank: int) -> int:
        """The node that a rank runs on: each has `devices_per_node` ranks that follow one another."""
        return rank // self.devices_per_node

    def coordinate(self, rank: int, dimension: RankDimension) -> int:
        """The index of a rank in one dimension, from 0; `rank_order` says how ranks are numbered."""
        degrees = self.degrees
        for faster in self.rank_order:
            if faster == dimension:
                break
            rank //= degrees[faster]
        return rank % degrees[dimension]

    def node_coordinates(self, node: int) -> dict[RankDimension, tuple[int, int]]:
        """Lowest and highest index of a node's ranks, in each dimension of more than one rank."""
        ranks = range(node * self.devices_per_node, (node + 1) * self.devices_per_node)
        ranges: dict[RankDimension, tuple[int, int]] = {}
        for dimension in self.rank_order:
            if self.degrees[dimension] > 1:
                indexes = [self.coordinate(rank, dimension) for rank in ranks]
                ranges[dimension] = (min(indexes), max(indexes))
        return ranges

    def data_parallel_rank(self, rank: int) -> int:
        """The share of the sequences that a rank sees: an index below `data_parallel`."""
        return self.coordinate(rank, "data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Batch arithmetic: global batch = micro batch x gradient accumulation x data parallel."""

    micro_batch: Positive
    """Sequences in one forward pass of one data-parallel rank."""
    gradient_accumulation: Positive
    """Forward passes in one optimiser step."""
    data_parallel: Positive
    """Groups of ranks that see different sequences."""
    global_batch: Positive
    """Sequences in one optimiser step, over all ranks."""
    seq_len: Positive
    """Tokens in one sequence."""
    tokens_per_step: Positive
    """global_batch x seq_len."""
