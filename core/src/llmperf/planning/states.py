"""A plan in the making: everything that is known of it, and everything that does not fit together."""

from __future__ import annotations

from dataclasses import dataclass, field

from llmperf.planning.vendors import Machine
from llmperf.plugins.loading import Plugins
from llmperf.types.layout import Batch, Layout
from llmperf.types.plan import FlopCount, Plan
from llmperf.types.problems import Problem
from llmperf.types.spec import RunSpec


@dataclass
class Draft:
    """What could be worked out. `plan` is there when ranks could be laid out; it may be run if `problems` is empty."""

    spec: RunSpec
    machine: Machine
    flops: FlopCount
    problems: list[Problem]
    layout: Layout | None = None
    batch: Batch | None = None
    plan: Plan | None = None
    plugins: Plugins | None = field(default=None, repr=False)
