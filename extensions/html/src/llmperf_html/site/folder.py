"""The folder of a site: written as a whole beside its place and then renamed, never half of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp

from llmperf import encode_pretty, read_bytes
from llmperf.errors import UserError

MARK = "site.json"
SCHEMA = "llmperf/site/1"


def check_target(target: Path, results: Sequence[Path]) -> None:
    """UserError if a site cannot be written to `target` without losing something that is not of a site."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise UserError(f"-o {target}: expected a folder, or no such name, found a link or a file")
    place = target.resolve()
    inside = next((path for path in results if path.resolve().is_relative_to(place)), None)
    if inside is not None:
        raise UserError(f"-o {target}: expected a folder outside of the results, found {inside} in it")
    if not target.parent.is_dir():
        raise UserError(f"-o {target}: no folder {target.parent}")
    if target.is_dir() and (present := _files(target)):
        extra = sorted(present - _own_files(target))
        if extra:
            raise UserError(
                f"-o {target}: expected an empty folder or a site, found {extra[0]!r}, which is no part of one"
            )


def write_site(target: Path, files: Mapping[str, str]) -> None:
    """Write files by their path in the site, and replace the site that is at `target`."""
    beside = Path(mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        new = beside / "new"
        listed = {"schema": SCHEMA, "files": sorted([*files, MARK])}
        for name, text in {**files, MARK: encode_pretty(listed).decode()}.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8", "backslashreplace"))
        if target.exists():
            os.rename(target, beside / "old")
        os.rename(new, target)
    except BaseException:
        if (beside / "old").exists() and not target.exists():
            os.rename(beside / "old", target)
        raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _files(folder: Path) -> set[str]:
    """Files and links of a folder by path."""
    names: set[str] = set()
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        names |= {Path(parent, name).relative_to(folder).as_posix() for name in (*files, *links)}
    return names


def _own_files(folder: Path) -> set[str]:
    """The files that llmperf wrote to a site; empty for another folder."""
    try:
        listed = json.loads(read_bytes(folder / MARK))
    except (UserError, ValueError, RecursionError):
        return set()
    known = isinstance(listed, dict) and listed.get("schema") == SCHEMA
    files = listed.get("files") if known else None
    return {name for name in files if isinstance(name, str)} if isinstance(files, list) else set()
