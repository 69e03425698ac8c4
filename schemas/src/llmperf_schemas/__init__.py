"""The JSON Schemas (2020-12) of llmperf, as data: results, plans, cases, models, records,
submissions' manifests, published documents, estimates, verifications and challenges.

They need nothing but this package, so that a website or another program can check documents without llmperf.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
"""Version of all schemas; raised when a document that was valid would no longer be."""

FOLDER = Path(__file__).parent
"""Where the schemas and the examples are."""

NAMES = ("result", "plan", "case", "model", "record", "manifest", "published", "estimate", "verification", "challenge")

RESULT_SCHEMA = f"llmperf/result/{SCHEMA_VERSION}"
"""What the `schema` field of a result says."""
PLAN_SCHEMA = f"llmperf/plan/{SCHEMA_VERSION}"
"""What the `schema` field of a plan says."""
MANIFEST_SCHEMA = f"llmperf/manifest/{SCHEMA_VERSION}"
"""What the `schema` field of a submission's manifest says."""
ESTIMATE_SCHEMA = f"llmperf/estimate/{SCHEMA_VERSION}"
"""What the `schema` field of an estimate says."""
VERIFICATION_SCHEMA = f"llmperf/verification/{SCHEMA_VERSION}"
"""What the `schema` field of a verification says."""
CHALLENGE_SCHEMA = f"llmperf/challenge/{SCHEMA_VERSION}"
"""What the `schema` field of a challenge says."""
PUBLISHED_SCHEMA = f"llmperf/published/{SCHEMA_VERSION}"
"""What the `schema` field of an imported document says."""


def names() -> tuple[str, ...]:
    """Every schema there is."""
    return NAMES


def schema_id(name: str) -> str:
    """The `$id` of a schema: `urn:llmperf:result:1` for documents that say `llmperf/result/1`."""
    return f"urn:llmperf:{_known(name)}:{SCHEMA_VERSION}"


def load(name: str) -> dict[str, Any]:
    """A schema by its name; KeyError if there is none of that name."""
    return _read(f"{_known(name)}.schema.json")


def example(name: str) -> dict[str, Any]:
    """A complete document that the schema of that name accepts; KeyError if there is none of that name."""
    return _read(f"{_known(name)}.example.json")


def _known(name: str) -> str:
    if name not in NAMES:
        raise KeyError(name)
    return name


def _read(path: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / path).read_text(encoding="utf-8"))
    return document
