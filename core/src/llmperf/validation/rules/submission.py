"""A submission against its manifest; applied by `llmperf.submissions.manifest`."""

from __future__ import annotations

from llmperf.validation.catalogue import reading_rule

NO_MANIFEST = reading_rule("LP801", "error", "A submission has a manifest")
MISSING = reading_rule("LP802", "error", "The files of the manifest are in the submission")
ALTERED = reading_rule("LP803", "error", "The files of a submission are those that were packed")
EXTRA = reading_rule("LP804", "warning", "A submission has no files beside those of its manifest")
UNEXPECTED = reading_rule("LP806", "error", "A submission has only the files that llmperf pack writes")
RUNS = reading_rule("LP807", "error", "The runs of a manifest are the folders with a result")
NOT_RENDERED = reading_rule("LP808", "error", "The README and the reports of a submission are those of its results")
UNDATED = reading_rule("LP809", "error", "A manifest says when it was packed")
