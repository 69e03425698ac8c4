"""Rules that are applied while a document is read and held against its schema."""

from __future__ import annotations

from llmperf.validation.catalogue import reading_rule

UNREADABLE = reading_rule("LP001", "error", "The document can be read")
REPEATED_KEY = reading_rule("LP002", "error", "A key stands once in an object")
CUT_OFF = reading_rule("LP003", "warning", "The last line of a record file is whole")
UNKNOWN_KEY = reading_rule("LP010", "error", "There are no unknown keys")
MISSING_KEY = reading_rule("LP011", "error", "Required keys are there")
WRONG_TYPE = reading_rule("LP012", "error", "Each value has the type of its field")
OUT_OF_RANGE = reading_rule("LP013", "error", "Numbers are within their bounds")
NOT_A_CHOICE = reading_rule("LP014", "error", "A choice is one of those there are")
MISNAMED = reading_rule("LP015", "error", "A case or a model has the name of its file")
REPEATED_RESULT = reading_rule("LP631", "warning", "A result is handed in once")
