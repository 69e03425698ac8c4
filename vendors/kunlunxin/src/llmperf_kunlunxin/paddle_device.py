"""One rank's card through Paddle's XPU build; imported in workers of a Paddle framework only."""

from __future__ import annotations

from llmperf import AcceleratorDevice
from llmperf.errors import PluginError

SIDE = 1024
"""Of the matrices whose product shows whether events tell time."""


def paddle_device(local_rank: int) -> AcceleratorDevice:
    """The card of a local rank among those that are visible, made Paddle's current one; PluginError without XPUs."""
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
