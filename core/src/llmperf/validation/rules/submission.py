"""A submission against its manifest; applied by `llmperf.validation.submission`."""

from __future__ import annotations

from llmperf.validation.catalogue import reading_rule

NO_MANIFEST = reading_rule("LP801", "error", "A submission has a manifest")
MISSING = reading_rule("LP802", "error", "The files of the manifest are in the submission")
ALTERED = reading_rule("LP803", "error", "The files of a submission are those that were packed")
EXTRA = reading_rule("LP804", "warning", "A submission has no files beside those of its manifest")
