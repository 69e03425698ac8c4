"""A result against the run folder it lies in; applied by `llmperf.validation.run_folder`."""

from __future__ import annotations

from llmperf.validation.catalogue import reading_rule

SHORT_WINDOW = reading_rule("LP642", "error", "A rank's window is no shorter than the steps in it")
SHORT_STEPS = reading_rule("LP643", "error", "A rank's steps fill its window")
STEP_TOKENS = reading_rule("LP644", "error", "A rank's steps and tokens are those of its records")
OTHER_WINDOW = reading_rule("LP646", "error", "A rank's window is the time between its phases")
OUTSIDE = reading_rule("LP647", "error", "A rank's steps were handed over within its window")
SAME_STEPS = reading_rule("LP648", "error", "A rank's steps differ in time")
SAME_RANKS = reading_rule("LP649", "error", "Two ranks differ in their step times")
PLAN_FILE = reading_rule("LP645", "error", "The configuration files are those of the plan")

CHANGED = reading_rule("LP701", "error", "The plan and the records are those the result was computed from")
ABSENT = reading_rule("LP702", "error", "The files the result was computed from are there")
DIFFERENT = reading_rule("LP703", "error", "The figures are those that the records give")
UNLISTED = reading_rule("LP704", "warning", "A result in a run folder lists all files it was computed from")
BY_ITSELF = reading_rule("LP705", "note", "The plan and the records lie beside a result")
RESULTLESS = reading_rule("LP706", "warning", "A run folder has its result")
NOT_SUBMITTED = reading_rule("LP805", "error", "A submission has the plan and the records of each result")
BROKEN_VENDOR = reading_rule("LP904", "warning", "An installed vendor's plugin can be asked")
PLUGIN_FAILED = reading_rule("LP901", "warning", "The rules of installed plugins can be applied")
