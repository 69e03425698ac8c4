"""One rank's device through torch; imported in workers only."""

from __future__ import annotations

from importlib import import_module

from llmperf import AcceleratorDevice
from llmperf.errors import PluginError

from llmperf_acme.catalogue import COLLECTIVES

EXTENSION = "torch_acme"
"""The module that teaches torch your devices; it is imported for what it registers. Edit it to be yours."""
NAMESPACE = "acme"
"""Where torch then has them: `torch.acme`, and tensors on `acme:0`. Edit it to be yours."""
SIDE = 1024
"""Of the matrices whose product shows whether the runtime's events tell time."""


def bind(local_rank: int) -> AcceleratorDevice:
    """The device of a local rank among those that are visible, made the current one.

    PluginError where the extension cannot be imported.
    """
    import torch

    try:
        import_module(EXTENSION)
    except (ImportError, OSError) as error:
        raise PluginError(f"{EXTENSION} cannot be imported, without which torch knows no device: {error}") from None
    runtime = getattr(torch, NAMESPACE)
    runtime.set_device(local_rank)
    place = f"{NAMESPACE}:{local_rank}"
    device = AcceleratorDevice(
        runtime, local_rank, collective_backend=COLLECTIVES, places={"torch": place}, make_event=runtime.Event
    )
    matrix = torch.ones(SIDE, SIDE, device=place)
    device.check_events(lambda: matrix @ matrix)
    return device
