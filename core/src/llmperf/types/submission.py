"""What a vendor hands in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`manifest.json` at the top of a submission: which files it has, so that a changed or a missing one shows."""

    schema: str
    """Name and version of this document's schema."""
    created: str
    """When it was packed: UTC, ISO 8601."""
    llmperf_version: str
    """Of the llmperf that packed it."""
    runs: tuple[str, ...]
    """Names of the run folders, sorted."""
    files: Mapping[str, str]
    """SHA-256 of every other file, by its path in the archive."""
