"""Joining the ranks, on one node over its loopback interface alone."""

from __future__ import annotations

import datetime
import os
import socket
import sys
from collections.abc import Callable, Iterator

import torch.distributed
from llmperf.errors import PluginError
from llmperf.types import Device, Plan
from torch.distributed import distributed_c10d

GRACE_SECONDS = 30.0
ADDRESS, DESCRIPTOR = "LLMPERF_STORE_ADDRESS", "LLMPERF_STORE_FD"
"""Variables that the agent sets in the ranks of a single node: the rendezvous address and, on rank 0, its socket."""
SCHEME = "llmperf"

Meeting = tuple[torch.distributed.Store, int, int]
_stores: list[torch.distributed.Store] = []


def torch_device(device: Device) -> torch.device:
    """Where this rank's tensors go; PluginError if the vendor has no place for torch's."""
    if "torch" not in device.places:
        named = ", ".join(device.places) or "no runtime"
        raise PluginError(f"the vendor's device has no place for torch, only for {named}; choose another framework")
    return torch.device(device.places["torch"])


def set_timeouts(plan: Plan) -> datetime.timedelta:
    """Let every group give up soon after the controller should have: groups made later take torch's default."""
    timeout = datetime.timedelta(seconds=max(plan.stall_seconds, plan.first_step_seconds) + GRACE_SECONDS)
    distributed_c10d.default_pg_timeout = timeout
    return timeout


def joined() -> bool:
    """Check whether this process is in a group."""
    return torch.distributed.is_initialized()


def join_ranks(plan: Plan, backend: str) -> None:
    """Make the process group of all ranks."""
    torch.distributed.init_process_group(backend, init_method=meeting_point(), timeout=set_timeouts(plan))


def meeting_point() -> str:
    """The `init_method` of every process group: how its ranks find each other.

    With llmperf's own agent that is a socket on which the first node listens already; otherwise MASTER_ADDR and
    MASTER_PORT.
    """
    if ADDRESS not in os.environ:
        return "env://"
    if int(os.environ["WORLD_SIZE"]) == int(os.environ["LOCAL_WORLD_SIZE"]):
        stay_on_loopback()
    if SCHEME not in rendezvous_handlers():
        torch.distributed.register_rendezvous_handler(SCHEME, meet)
    return f"{SCHEME}://"


def meet_as_agent_says() -> None:
    """Have groups of foreign code, which meets by `env://`, meet at the agent's socket too where there is one."""
    if meeting_point() != "env://":
        rendezvous_handlers()["env"] = meet


def rendezvous_handlers() -> dict[str, Callable[..., Iterator[Meeting]]]:
    """Torch's table of them, by the scheme of the `init_method`."""
    table: dict[str, Callable[..., Iterator[Meeting]]] = sys.modules["torch.distributed.rendezvous"].__dict__[
        "_rendezvous_handlers"
    ]
    return table


def stay_on_loopback() -> None:
    """Have gloo and NCCL listen on the loopback interface, unless the user has chosen one."""
    names = {name for _, name in socket.if_nameindex()}
    loopback = next((name for name in ("lo", "lo0") if name in names), None)
    if loopback is not None:
        for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(variable, loopback)


def meet(_: str, timeout: datetime.timedelta = distributed_c10d.default_pg_timeout, **__: object) -> Iterator[Meeting]:
    """Torch's rendezvous by the agent's socket: the store, this rank, the number of ranks.

    The agent has bound that socket, on one node to 127.0.0.1, and handed it to rank 0: nobody else can take its port.
    """
    rank, world = own_rank(), int(os.environ["WORLD_SIZE"])
    host, _, port = os.environ[ADDRESS].rpartition(":")
    socket_of_agent = {"master_listen_fd": int(os.environ[DESCRIPTOR])} if rank == 0 else {}
    if not _stores:
        arguments = (host, int(port), world, rank == 0, timeout)
        try:
            store = torch.distributed.TCPStore(*arguments, **socket_of_agent)
        except NotImplementedError:  # torch 2.6: its libuv server takes no socket, its other one does
            store = torch.distributed.TCPStore(*arguments, **socket_of_agent, use_libuv=False)
        _stores.append(store)
    _stores.append(torch.distributed.PrefixStore(str(len(_stores)), _stores[0]))  # a second group after the first
    yield _stores[-1], rank, world


def own_rank() -> int:
    """This process's rank, as its agent set it."""
    return int(os.environ["RANK"])


def leave_ranks() -> None:
    """End the process group, if there is one."""
    if joined():
        torch.distributed.destroy_process_group()
