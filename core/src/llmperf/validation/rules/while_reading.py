"""Rules that are applied while files are read, and so have no function: schema, run folders, records, plugins."""

from __future__ import annotations

from llmperf.types.documents import UNREADABLE as UNREADABLE_CODE
from llmperf.types.documents import Rule, Severity


def _rule(code: str, severity: Severity, title: str) -> Rule:
    return Rule(code=code, severity=severity, title=title, kinds=())


UNREADABLE = _rule(UNREADABLE_CODE, "error", "The document can be read")
REPEATED_KEY = _rule("LP002", "error", "A key occurs once in an object")
CUT_OFF = _rule("LP003", "warning", "The last line of a record file is whole")
UNKNOWN_KEY = _rule("LP010", "error", "There are no unknown keys")
MISSING_KEY = _rule("LP011", "error", "Required keys are there")
WRONG_TYPE = _rule("LP012", "error", "Each value has the type of its field")
OUT_OF_RANGE = _rule("LP013", "error", "Numbers are within their bounds")
NOT_A_CHOICE = _rule("LP014", "error", "A choice is one of those there are")
MISNAMED = _rule("LP015", "error", "A case or a model has the name of its file")
REPEATED_RESULT = _rule("LP631", "warning", "A result is handed in once")

PLAN_PROBLEMS = _rule("LP651", "error", "A complete run has a plan without problems")
PLAN_FILE = _rule("LP645", "error", "The configuration files are those of the plan")

CHANGED = _rule("LP701", "error", "The plan and the records are those the result was computed from")
ABSENT = _rule("LP702", "error", "The files the result was computed from are there")
DIFFERENT = _rule("LP703", "error", "The figures are those that the records give")
UNLISTED = _rule("LP704", "warning", "A result in a run folder lists all files it was computed from")
BY_ITSELF = _rule("LP705", "note", "The plan and the records lie beside a result")
RESULTLESS = _rule("LP706", "warning", "A run folder has its result")
NOT_SUBMITTED = _rule("LP805", "error", "A submission has the plan and the records of each result")

RULE_FAILED = _rule("LP901", "warning", "The rules of installed plugins can be applied")
