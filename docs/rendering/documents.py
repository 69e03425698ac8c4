"""The schemas, whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import llmperf_schemas
from llmperf.results.sections import known_sections
from llmperf.runfolder.reader import KINDS as CORE_RECORDS
from llmperf.types import plan, result, spec
from llmperf_estimate.types import Estimate
from llmperf_published.types import document
from llmperf_verify import challenges, submissions, verification
from llmperf_verify.first_losses import SequencesRecord

from rendering.fields import Definitions, Schema, class_description

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS: dict[str, type] = {
    "result": result.Result,
    "plan": plan.Plan,
    "case": spec.Case,
    "model": spec.Model,
    "manifest": submissions.Manifest,
    "published": document.Published,
    "estimate": Estimate,
    "verification": verification.Verification,
    "challenge": challenges.Challenge,
}
RECORDS: tuple[type, ...] = (*CORE_RECORDS.values(), SequencesRecord)


def render(name: str) -> Schema:
    """One schema with its example; KeyError if there is none of that name."""
    definitions = Definitions()
    body = _records(definitions) if name == "record" else _document(name, definitions)
    head: dict[str, Any] = {"$schema": DIALECT, "$id": llmperf_schemas.schema_id(name)}
    nested = {"$defs": dict(sorted(definitions.schemas.items()))} if definitions.schemas else {}
    return {**head, **body, "examples": [llmperf_schemas.example(name)], **nested}


def _document(name: str, definitions: Definitions) -> Schema:
    body = definitions.object(KINDS[name])
    if "schema" in body["properties"]:
        described = body["properties"]["schema"]["description"]
        own = getattr(llmperf_schemas, f"{name.upper()}_SCHEMA")
        body["properties"]["schema"] = {"description": described, "const": own}
    if name == "result":
        sections = {
            name: definitions.reference(owned.section.figures) for name, owned in known_sections().by_name.items()
        }
        body["properties"]["sections"]["properties"] = dict(sorted(sections.items()))
    return body


def _records(definitions: Definitions) -> Schema:
    options = []
    for kind in RECORDS:
        options.append(definitions.reference(kind))
        body = definitions.schemas[kind.__name__]
        (word,) = body["properties"]["kind"].pop("enum")
        body["properties"]["kind"]["const"] = word
        body["required"].insert(0, "kind")
    return {
        "title": "Record",
        "description": "One line of what a run leaves behind: "
        + " ".join(f"{kind.__name__}: {class_description(kind)}" for kind in RECORDS),
        "oneOf": options,
    }


def target(name: str) -> Path:
    """The committed file of a schema."""
    return Path(llmperf_schemas.__file__).parent / f"{name}.schema.json"
