"""Reports: sheets of labelled rows, and the formats that render them.

The names below are public: what a plugin needs for a kind of document or a report format of its own, beside the types
in `llmperf.types`. Each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from llmperf.lazy import lazy_names

if TYPE_CHECKING:
    from llmperf.reporting.cells import AMOUNT as AMOUNT
    from llmperf.reporting.cells import LOSS as LOSS
    from llmperf.reporting.cells import PERCENT as PERCENT
    from llmperf.reporting.cells import SIGNIFICANT as SIGNIFICANT
    from llmperf.reporting.cells import STEP_SECONDS as STEP_SECONDS
    from llmperf.reporting.cells import THROUGHPUT as THROUGHPUT
    from llmperf.reporting.cells import UNKNOWN as UNKNOWN
    from llmperf.reporting.cells import WATTS as WATTS
    from llmperf.reporting.cells import duration as duration
    from llmperf.reporting.cells import failure_text as failure_text
    from llmperf.reporting.cells import leaves as leaves
    from llmperf.reporting.cells import money as money
    from llmperf.reporting.cells import rounded as rounded
    from llmperf.reporting.cells import shown as shown
    from llmperf.reporting.comparison import COMPARED as COMPARED
    from llmperf.reporting.comparison import compare as compare
    from llmperf.reporting.cost_rows import Costing as Costing
    from llmperf.reporting.cost_rows import costing_for as costing_for
    from llmperf.reporting.cost_rows import used_prices as used_prices
    from llmperf.reporting.cost_rows import with_cost as with_cost
    from llmperf.reporting.exports import sheet_values as sheet_values
    from llmperf.reporting.finding_texts import finding_text as finding_text
    from llmperf.reporting.kind_texts import disturbed_lines as disturbed_lines
    from llmperf.reporting.language import language_of_locale as language_of_locale
    from llmperf.reporting.overview import model_text as model_text
    from llmperf.reporting.overview import ordered as ordered
    from llmperf.reporting.price_matches import catalogued_names as catalogued_names
    from llmperf.reporting.price_matches import one_model as one_model
    from llmperf.reporting.ranking import Entry as Entry
    from llmperf.reporting.ranking import Interval as Interval
    from llmperf.reporting.ranking import Standing as Standing
    from llmperf.reporting.ranking import standings as standings
    from llmperf.reporting.result_sheets import result_sheet as result_sheet
    from llmperf.reporting.safe_text import markdown_text as markdown_text
    from llmperf.reporting.safe_text import printable as printable
    from llmperf.reporting.scaling_rows import with_scaling as with_scaling
    from llmperf.reporting.speed_sentences import speed_line as speed_line
    from llmperf.reporting.terminal import closing_lines as closing_lines
    from llmperf.reporting.text_table import Column as Column
    from llmperf.reporting.words import value_text as value_text
    from llmperf.reporting.words import word as word

_HOMES = lazy_names(__file__)

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
    raise AttributeError(f"module 'llmperf.reporting' has no attribute {name!r}")
