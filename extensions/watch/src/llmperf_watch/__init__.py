"""llmperf extension `watch`: the speed of any training program, from its own output or by `meter` in its loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.lazy import lazily

if TYPE_CHECKING:
    from llmperf_watch.callbacks import lightning_callback as lightning_callback
    from llmperf_watch.callbacks import trainer_callback as trainer_callback
    from llmperf_watch.metering import Meter as Meter
    from llmperf_watch.metering import meter as meter

__all__, __getattr__ = lazily(globals())
