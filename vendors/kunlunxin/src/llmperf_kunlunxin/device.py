"""A rank's card through XPyTorch, which shows it as a CUDA device, or through Paddle; imported in workers only."""

from __future__ import annotations

from llmperf.errors import PluginError
from llmperf.types import Plan
from llmperf_vendorkit import AcceleratorDevice

SIDE = 1024
"""Side of the matrices whose product shows whether events measure time."""


def xpytorch_device(plan: Plan, local_rank: int) -> AcceleratorDevice:
    """The card of a local rank among the visible ones, made torch's current device.

    XPyTorch maps torch's `cuda` devices to XPUs and its `nccl` backend to BKCL. PluginError if it is not installed,
    or if a stand-in for it is found and the plan's machine does not say that it is simulated.
    """
    try:
        import torch_xmlir  # before torch is first asked for a device
    except ImportError as error:
        raise PluginError(f"XPyTorch, through which torch uses XPUs, cannot be imported: {error}") from None
    stand_in = getattr(torch_xmlir, "LLMPERF_STAND_IN", None)
    if stand_in is not None and not plan.probe.simulated:
        raise PluginError("torch_xmlir is a stand-in that computes elsewhere, and the plan is for real devices")
    import torch

    place = stand_in["torch_device"] if stand_in else f"cuda:{local_rank}"
    torch.cuda.set_device(local_rank)
    device = AcceleratorDevice(
        torch.cuda,
        local_rank,
        collective_backend=stand_in["collective_backend"] if stand_in else "nccl",
        places={"torch": place},
        make_event=torch.cuda.Event,
    )
    matrix = torch.ones(SIDE, SIDE, device=place)
    device.check_events(lambda: matrix @ matrix)
    return device


def paddle_device(local_rank: int) -> AcceleratorDevice:
    """The card of a local rank among the visible ones, made Paddle's current device; PluginError without XPUs."""
    import paddle

    if not paddle.device.is_compiled_with_xpu():
        raise PluginError(f"paddle {paddle.__version__} is not built for XPUs; install paddlepaddle-xpu of the vendor")
    place = f"xpu:{local_rank}"
    paddle.set_device(place)
    device = AcceleratorDevice(
        paddle.device.xpu,
        local_rank,
        collective_backend="bkcl",
        places={"paddle": place},
        make_event=paddle.device.Event,
    )
    matrix = paddle.ones([SIDE, SIDE])
    device.check_events(lambda: matrix @ matrix)
    return device
