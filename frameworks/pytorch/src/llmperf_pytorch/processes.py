"""Joining the ranks."""

from __future__ import annotations

import datetime
import os
from typing import TYPE_CHECKING

import torch.distributed
from llmperf.errors import PluginError
from torch.distributed import distributed_c10d

if TYPE_CHECKING:
    from llmperf.types import Device, Plan

GRACE_SECONDS = 30.0


def torch_device(device: Device) -> torch.device:
    """Where this rank's tensors go; PluginError if the vendor has no place for torch's."""
    if device.torch_device is None:
        raise PluginError("the vendor's device names no torch_device; choose a framework of another runtime")
    return torch.device(device.torch_device)


def set_timeouts(plan: Plan) -> datetime.timedelta:
    """Let every group give up soon after the controller should have: groups made later take torch's default."""
    timeout = datetime.timedelta(seconds=max(plan.stall_seconds, plan.first_step_seconds) + GRACE_SECONDS)
    distributed_c10d.default_pg_timeout = timeout
    return timeout


def joined() -> bool:
    """Whether this process is in a group."""
    return torch.distributed.is_initialized()


def join_ranks(plan: Plan, backend: str) -> None:
    """Make the process group of all ranks from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT."""
    torch.distributed.init_process_group(backend, timeout=set_timeouts(plan))


def own_rank() -> int:
    """This process's rank, as its agent set it."""
    return int(os.environ["RANK"])


def leave_ranks() -> None:
    """End the process group, if there is one."""
    if joined():
        torch.distributed.destroy_process_group()
