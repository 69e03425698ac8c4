"""A rank's device through torch; imported in workers only."""

from __future__ import annotations

from importlib import import_module

from llmperf.errors import PluginError
from llmperf_vendorkit import AcceleratorDevice

from llmperf_acme.tool import VENDOR

EXTENSION = VENDOR.torch_extension or ""
"""The module that adds your devices to torch when it is imported."""
NAMESPACE = "acme"
"""Where torch then has them: `torch.acme`, and tensors on `acme:0`. Edit it to be yours."""
SIDE = 1024
"""Of the matrices whose product shows whether the runtime's events measure time."""


def bind(local_rank: int) -> AcceleratorDevice:
    """The device of a local rank among the visible ones, made torch's current device.

    PluginError if the extension cannot be imported.
    """
    import torch

    try:
        import_module(EXTENSION)
    except (ImportError, OSError) as error:
        raise PluginError(f"{EXTENSION}, through which torch uses the devices, cannot be imported: {error}") from None
    runtime = getattr(torch, NAMESPACE)
    runtime.set_device(local_rank)
    place = f"{NAMESPACE}:{local_rank}"
    device = AcceleratorDevice(
        runtime,
        local_rank,
        collective_backend=VENDOR.collective_backend,
        places={"torch": place},
        make_event=runtime.Event,
    )
    matrix = torch.ones(SIDE, SIDE, device=place)
    device.check_events(lambda: matrix @ matrix)
    return device
