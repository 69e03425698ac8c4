"""llmperf extension `peak`: operations that ranks time, the rates that are kept, and the roofline of results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import DeviceRates, Plan, RankTask, ResultSection, Rule


@hookimpl
def llmperf_measured_rates(plan: Plan, packages: Mapping[str, str]) -> Iterator[DeviceRates | str]:
    """The rates that `llmperf peak` measured here, or why they are not used."""
    from llmperf_peak.kept_rates import kept_rates

    if (kept := kept_rates(plan.probe, packages)) is not None:
        yield kept


@hookimpl
def llmperf_rank_tasks() -> Iterable[RankTask]:
    """The task of the ranks of `llmperf peak`."""
    from llmperf.types import RankTask

    from llmperf_peak.rank import time_operations

    return [RankTask(name="peak", run=time_operations)]


@hookimpl
def llmperf_result_sections() -> Iterator[ResultSection]:
    """The place of a run on the roofline, where an installed package expects the work of a step."""
    from llmperf import plugins_answering

    if plugins_answering("llmperf_plan_checks", "extension"):
        from llmperf_peak.roofline import SECTION

        yield SECTION


@hookimpl
def llmperf_rules(kind: str | None) -> Iterable[Rule]:
    """The rules over the roofline and over measured peaks."""
    if kind not in (None, "result"):
        return []
    from llmperf.validation import rules_in

    from llmperf_peak import roofline, rules

    return rules_in(roofline, rules)
