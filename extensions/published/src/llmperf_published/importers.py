"""Sources of `llmperf import` that are no Markdown table: other packages read them.

Such a package has an entry point `llmperf.importer.v1`, a class without arguments that is an `Importer`. It may have a
method `has_profile(name, path)`, which checks whether `--profile` names a profile of its own, by which it reads a path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from llmperf.errors import UserError

GROUP = "llmperf.importer.v1"


class Importer(Protocol):
    """Reads one kind of source."""

    title: str
    """What it reads, in the plural."""

    def claims(self, path: Path) -> bool:
        """Check whether it reads a file or folder; by its name and the beginning of its text, without an error."""

    def read(
        self, paths: Sequence[Path], out: Path, stated: Mapping[str, str | None], *, force: bool, as_json: bool
    ) -> None:
        """Read what it has claimed, write below `out`, and print what was read. UserError if it cannot be read.

        `stated` has what the options --vendor, --device, --devices, --precision say of what sources leave out.
        """


def read_by_others(
    sources: Sequence[Path], out: Path, stated: Mapping[str, str | None], *, force: bool, as_json: bool
) -> tuple[Path, ...]:
    """Have the installed importers read what they claim, or all where `stated` has the profile of one; the rest."""
    left, profile = list(sources), stated.get("profile")
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        importer: Importer = entry.load()()
        own = getattr(importer, "has_profile", lambda *_: False) if profile else lambda *_: False
        claimed = [path for path in left if path.exists() and (own(profile, path) or importer.claims(path))]
        if claimed and as_json and len(claimed) < len(sources):
            raise UserError(f"--json: expected sources of one kind, found {importer.title} and others")
        if claimed:
            importer.read(claimed, out, stated, force=force, as_json=as_json)
        left = [path for path in left if path not in claimed]
    return tuple(left)
