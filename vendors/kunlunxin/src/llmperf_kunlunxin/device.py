"""One rank's card through XPyTorch, which shows it as a CUDA device; imported in workers only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmperf import AcceleratorDevice
from llmperf.errors import PluginError

if TYPE_CHECKING:
    from llmperf.types import Plan

SIDE = 1024
"""Of the matrices whose product shows whether events tell time."""


def xpytorch_device(plan: Plan | None, local_rank: int) -> AcceleratorDevice:
    """The card of a local rank among those that are visible, made the current one.

    XPyTorch maps torch's `cuda` devices to XPUs and its `nccl` backend to BKCL. PluginError where it is not installed,
    or where a stand-in for it is found on a machine that does not say it is simulated.
    """
    where = _where(_runtime(), plan, local_rank)  # imported before torch is first asked for a device
    import torch

    torch.cuda.set_device(local_rank)
    device = AcceleratorDevice(
        torch.cuda, local_rank, collective_backend=where[1], places={"torch": where[0]}, make_event=torch.cuda.Event
    )
    matrix = torch.ones(SIDE, SIDE, device=where[0])
    device.check_events(lambda: matrix @ matrix)
    return device


def _runtime() -> Any:
    try:
        import torch_xmlir
    except ImportError as error:
        raise PluginError(f"XPyTorch cannot be imported, without which torch knows no XPU: {error}") from None
    return torch_xmlir


def _where(runtime: Any, plan: Plan | None, local_rank: int) -> tuple[str, str]:
    """Torch's name of the device and of the collective backend."""
    stand_in = getattr(runtime, "LLMPERF_STAND_IN", None)
    if stand_in is None:
        return f"cuda:{local_rank}", "nccl"
    if plan is None or not plan.probe.simulated:
        raise PluginError("torch_xmlir is a stand-in that computes elsewhere, and the plan is for real devices")
    return stand_in["torch_device"], stand_in["collective_backend"]
