"""Reports: sheets of labelled rows, and the formats that render them. The names below are public, for plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.lazy import lazily

if TYPE_CHECKING:
    from llmperf.reporting.cells import AMOUNT as AMOUNT
    from llmperf.reporting.cells import LOSS as LOSS
    from llmperf.reporting.cells import PERCENT as PERCENT
    from llmperf.reporting.cells import SIGNIFICANT as SIGNIFICANT
    from llmperf.reporting.cells import STEP_SECONDS as STEP_SECONDS
    from llmperf.reporting.cells import THROUGHPUT as THROUGHPUT
    from llmperf.reporting.cells import UNKNOWN as UNKNOWN
    from llmperf.reporting.cells import WATTS as WATTS
    from llmperf.reporting.cells import devices as devices
    from llmperf.reporting.cells import duration as duration
    from llmperf.reporting.cells import failure_text as failure_text
    from llmperf.reporting.cells import layout as layout
    from llmperf.reporting.cells import leaves as leaves
    from llmperf.reporting.cells import money as money
    from llmperf.reporting.cells import part as part
    from llmperf.reporting.cells import percent as percent
    from llmperf.reporting.cells import rounded as rounded
    from llmperf.reporting.cells import settings as settings
    from llmperf.reporting.cells import shown as shown
    from llmperf.reporting.exports import sheet_values as sheet_values
    from llmperf.reporting.language import language_of_locale as language_of_locale
    from llmperf.reporting.language import language_option as language_option
    from llmperf.reporting.markdown import markdown_table as markdown_table
    from llmperf.reporting.markdown import render_results as render_results
    from llmperf.reporting.markdown import rendered_again as rendered_again
    from llmperf.reporting.overview import COMPUTED_MFU as COMPUTED_MFU
    from llmperf.reporting.overview import IN_TABLE as IN_TABLE
    from llmperf.reporting.overview import has_computed_mfu as has_computed_mfu
    from llmperf.reporting.overview import in_order as in_order
    from llmperf.reporting.overview import model_text as model_text
    from llmperf.reporting.overview import ordered as ordered
    from llmperf.reporting.overview import overview_cells as overview_cells
    from llmperf.reporting.reported_documents import archive_kind as archive_kind
    from llmperf.reporting.reported_documents import document_path as document_path
    from llmperf.reporting.reported_documents import folder_of as folder_of
    from llmperf.reporting.reported_documents import report_sheets as report_sheets
    from llmperf.reporting.reported_documents import sheets_of as sheets_of
    from llmperf.reporting.result_sheets import figure_rows as figure_rows
    from llmperf.reporting.result_sheets import result_sheet as result_sheet
    from llmperf.reporting.run_setup import contract_parts as contract_parts
    from llmperf.reporting.terminal import card as card
    from llmperf.reporting.terminal import closing_lines as closing_lines
    from llmperf.reporting.terminal import left_out_text as left_out_text
    from llmperf.reporting.text_table import laid_out as laid_out
    from llmperf.reporting.text_table import sparkline as sparkline
    from llmperf.reporting.text_table import wrapped_cell as wrapped_cell
    from llmperf.reporting.words import finding_text as finding_text
    from llmperf.reporting.words import markdown_text as markdown_text
    from llmperf.reporting.words import printable as printable
    from llmperf.reporting.words import sentence as sentence
    from llmperf.reporting.words import value_text as value_text
    from llmperf.reporting.words import word as word
    from llmperf.results.disturbances import disturbances as disturbances
    from llmperf.results.disturbances import disturbed as disturbed
    from llmperf.results.disturbances import mostly_disturbed as mostly_disturbed
    from llmperf.results.disturbances import shared as shared
    from llmperf.results.disturbances import uneven as uneven
    from llmperf.results.statistics import Kind as Kind
    from llmperf.results.statistics import Spread as Spread
    from llmperf.results.statistics import device_throughput as device_throughput
    from llmperf.results.statistics import kind_of as kind_of
    from llmperf.results.statistics import quantile as quantile
    from llmperf.results.statistics import spread as spread
    from llmperf.results.statistics import throughputs as throughputs
    from llmperf.types.sheet import Column as Column

_MOVED = {
    name: f"llmperf_compare.{module}.{name}"
    for module, names in {
        "comparison": "compare speed_line",
        "comparison_page": "COMPARED",
        "cost": "COST_COLUMNS Costing costing_for used_prices with_cost",
        "documents": "read_baselines read_results results_and_others summaries",
        "finding_formats": "answer_findings",
        "kind_texts": "disturbed_lines",
        "page": "MAX_LINE Line Page",
        "prices": "one_model",
        "ranking": "Entry Interval Standing standings",
        "scaling": "SCALING_ASSUMES SCALING_COLUMN with_scaling",
    }.items()
    for name in names.split()
}
"""Replacements for names that this module once had."""

__all__, __getattr__ = lazily(globals(), _MOVED)
