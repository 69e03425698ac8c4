"""Fleet, with the ranks in llmperf's order: tensor parallel fastest, then data (sharding fastest), then pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddle.distributed import fleet, is_initialized

from llmperf_paddle.layers import DividedLayers, Layers, PlainLayers
from llmperf_paddle.loopback import check_port, choose_interface, confine_stores

if TYPE_CHECKING:
    from llmperf.types import Plan

ORDER = ["pp", "dp", "sharding", "sep", "mp"]
"""Slowest first. Fleet's default has data parallel slowest; `Layout.data_parallel_rank` follows this one."""


def join(plan: Plan) -> Any:
    """Make all groups; fleet's `HybridCommunicateGroup`."""
    if plan.layout.nodes == 1:
        choose_interface()
    if not is_initialized():
        check_port()
    fleet.init(is_collective=True, strategy=strategy(plan), log_level="WARNING")
    if plan.layout.nodes == 1:
        confine_stores()
    return fleet.get_hybrid_communicate_group()


def strategy(plan: Plan) -> Any:
    """Fleet's strategy of a plan."""
    layout, batch = plan.layout, plan.batch
    sharding = layout.sharding_degree if layout.sharding_stage else 1
    made = fleet.DistributedStrategy()
    made.hybrid_configs = {
        "dp_degree": layout.data_parallel // sharding,
        "mp_degree": layout.tensor_parallel,
        "pp_degree": layout.pipeline_parallel,
        "sharding_degree": sharding,
        "sep_degree": 1,
        "order": list(ORDER),
    }
    configurations = made.hybrid_configs
    configurations["mp_configs"].need_broadcast_data = False  # these ranks read the same tokens themselves
    configurations["sharding_configs"].split_param = bool(plan.spec.framework.get("split_param", False))
    made.pipeline_configs = {
        "accumulate_steps": batch.gradient_accumulation,
        "micro_batch_size": batch.micro_batch,
        "enable_partial_send_recv": plan.probe.offers.collective_backend != "gloo",
    }
    return made


def layers_of(groups: Any) -> Layers:
    """Plain layers, or those of the tensor-parallel group."""
    if groups is None or groups.get_model_parallel_world_size() == 1:
        return PlainLayers()
    size, rank = groups.get_model_parallel_world_size(), groups.get_model_parallel_rank()
    return DividedLayers(size, rank, groups.get_model_parallel_group())
