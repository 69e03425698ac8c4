"""A result against the run folder it lies in; applied by `llmperf.validation.run_folder`."""

from __future__ import annotations

from llmperf.validation.catalogue import reading_rule

CHANGED = reading_rule("LP701", "error", "The plan and the records are those the result was computed from")
ABSENT = reading_rule("LP702", "error", "The files the result was computed from are there")
DIFFERENT = reading_rule("LP703", "error", "The figures are those that the records give")
UNLISTED = reading_rule("LP704", "warning", "A result in a run folder lists all files it was computed from")
BY_ITSELF = reading_rule("LP705", "note", "The plan and the records lie beside a result")
NOT_SUBMITTED = reading_rule("LP805", "error", "A submission has the plan and the records of each result")
PLUGIN_FAILED = reading_rule("LP901", "warning", "The rules of installed plugins can be applied")
