"""What llmperf asks of a vendor, answered for AMD GPUs through ROCm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Probe


@hookimpl
def llmperf_probe() -> Probe:
    """No device is looked for yet."""
    from llmperf.types import Offers, Probe

    offers = Offers(precisions=(), runtimes=(), collective_backend="gloo")
    return Probe(vendor="rocm", devices=(), offers=offers, problems=("not written yet",))
