"""Texts of the page, by the name that its scripts use. `chinese.py` has the translations."""

from __future__ import annotations

from llmperf import reporting

from llmperf_html.chinese import CHINESE

LABELS = {
    "step_seconds_median": "step, s",
    "rank_peak_bytes": "memory of a rank, GiB",
    "joules_per_token": "energy, J a token",
    "cost_per_million_tokens": "cost per million tokens",
}
"""Labels of compared figures that no run of a report may have."""
MEMORY = ("rank_peak_bytes", "device_memory_used_bytes")
"""Keys of figures whose ratio to a published figure means nothing: documents do not say what theirs count."""
IN_USE_BY_ALL = "device_memory_used_bytes"
"""On a device that ranks share, such as a host, this counts other processes too: it gets no ratio."""

WORDS = {
    "in_use_by_all": "{figure}, in use by all",
    "loss": "loss",
    "step": "step",
    "loss_axis": "loss, nats per token",
    "step_seconds": "step time",
    "step_seconds_axis": "step time, s",
    "memory_bytes": "memory in use on a device",
    "memory_bytes_axis": "memory, GiB",
    "power_watts": "power of a device",
    "power_watts_axis": "power, W",
    "utilisation_percent": "utilisation of a device",
    "utilisation_percent_axis": "utilisation, %",
    "since_window": "seconds since the window began",
    "since_sample": "seconds since the first sample",
    "by_step": "against steps",
    "by_time": "against time",
    "axis_choice": "Charts",
    "entropy": "known entropy of the data",
    "expected_step": "estimate before the run",
    "warmup": "warm-up: not measured",
    "outside": "outside the measured window",
    "band_ranks": "5 % to 95 % of ranks",
    "band_devices": "5 % to 95 % of devices",
    "both_ranks": "range of both ranks",
    "both_devices": "range of both devices",
    "neighbours": "range of neighbouring points",
    "findings": "Findings",
    "no_findings": "No findings.",
    "where_time_went": "Where the time went",
    "phase": "phase of rank 0",
    "traced_step": "One traced step of rank 0, which the profiler slows down",
    "kind_of_operation": "kind of operation",
    "products": "products",
    "attention": "attention",
    "collectives": "communication, not beside computation",
    "memory": "bound by memory: norms, activations, copies, the update",
    "host_gaps": "neither operations nor communication",
    "other": "the rest; below 0 where operations overlap",
    "waiting": "In the measured window, ranks waited for communication for {share} of the time.",
    "waiting_unknown": "How long ranks waited for communication is unknown.",
    "seconds": "seconds",
    "share": "share",
    "starting": "starting",
    "loading": "loading",
    "building": "building",
    "warming_up": "warming up",
    "measuring": "measuring",
    "evaluating": "evaluating",
    "done": "done",
    "estimate": "Estimate and measurement",
    "estimated": "estimated",
    "measured": "measured",
    "measured_to_estimated": "measured / estimated",
    "step_median": "step, s, median",
    "peak_of_rank": "memory of a rank, GiB, peak",
    "estimate_basis": "Estimated by formulas before the run; they leave out memory beside tensors.",
    "no_estimate": "The run folder has no estimate.",
    "contract": "Contract",
    "path": "path",
    "value": "value",
    "environment": "Environment and details",
    "repeats_of": "Repeats",
    "contracts_differ": "The contracts differ, so the figures measure different things: no ratio. They differ in:",
    "contracts_equal": "One contract: the figures measure the same thing.",
    "settings_differ": "They were run differently:",
    "by_default": "default",
    "device_share": "share of a device per rank",
    "shares_differ": "The ranks had different shares of a device: token/p/s is that of a rank, not of a device.",
    "not_told": "Not stated, so it is unknown whether it is the same:",
    "not_complete": "Not complete, so no ratio is shown:",
    "memory_unlike": "No ratio of memory: documents do not say what their figures count.",
    "ratio_alone": "{side} is {ratio} times as fast as {base}. A single run has no spread, so this may be chance "
    "(llmperf run --repeat 4, llmperf compare).",
    "ratio_without_interval": "{side} is {ratio} times as fast as {base} by the medians (interval: llmperf compare).",
    "range_of": "{low} to {high} in {runs} runs",
    "figure": "figure",
    "figures": "Figures",
    "open": "open",
    "back": "Back to the overview",
    "compare": "compare",
    "compare_chosen": "Compare {chosen} chosen",
    "choose_more": "Choose 2 to {most} rows to compare them.",
    "too_many": "{chosen} chosen: at most {most} can be compared.",
    "comparison": "Comparison",
    "curves_of": "Curves of all runs that are compared",
    "shown": "{shown} of {all} runs",
    "runs_of": "{runs} runs",
    "some_runs_of": "{some} of {runs} runs",
    "expand": "show the runs of {name}",
    "search": "Search",
    "search_hint": "model, device, framework, case, run ...",
    "columns": "Columns",
    "group": "group repeats",
    "model_choice": "Model",
    "all_models": "all models",
    "skip": "Skip to the runs",
    "as_table": "as a table",
    "lowest": "lowest",
    "highest": "highest",
    "below": "{value}, below this chart",
    "above": "{value}, above this chart",
    "not_in_scale": "errors: not in the scale",
    "close_curve": "A and B differ by {value} at most, so one covers the other",
    "same_curve": "A and B have the same curve, so one covers the other",
    "overview": "All runs",
    "nothing": "No run fits.",
    "page": "rows {first} to {last} of {all}",
    "pages": "pages of the table",
    "previous": "previous",
    "next": "next",
    "show_all": "show all {count}",
    "show_fewer": "show the first {count}",
    "computed": "computed",
}

NO_LOSS = "No curves: there is no loss and there are no records."
TOO_LARGE = "No curves: with them the report would be too large."
NO_RECORDS = "No curves: an imported row has no records."


PLACE = {"en": "place", "zh": "名次"}
"""Heading of the place in a ranking; a `rank` is a process."""


def word(english: str, language: str) -> str:
    """A word of the page, or a label or text of llmperf, in a language."""
    if language == "zh" and english in CHINESE:
        return CHINESE[english]
    return reporting.word(english, language)
