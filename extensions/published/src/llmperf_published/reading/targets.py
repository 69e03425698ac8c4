"""The documents that `llmperf import` reads, and the folder that each is written to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from llmperf.errors import UserError

SUFFIXES = (".md", ".markdown")
"""Suffixes of the files that are read in a folder."""
MAX_FILES = 20_000
"""Markdown files of one folder."""
_INDEXES = ("readme", "index")
"""File names that say nothing of their content: such a document is called by its folder."""


@dataclass(frozen=True, slots=True)
class Place:
    """A document, and where it belongs."""

    source: Path
    """The Markdown file."""
    folder: Path
    """Relative to the folder of all imports."""
    in_tree: bool = False
    """It was found in a folder, and not named."""


def places(sources: Sequence[Path]) -> list[Place]:
    """Every document to read, each with a folder of its own. Folders are searched; links in them are not followed.

    UserError if a file is named twice, or if a folder cannot be read.
    """
    found: list[Place] = []
    for source in sources:
        if source.is_dir():
            found += (Place(path, _in_tree(path.relative_to(source), source), True) for path in _markdown(source))
        else:
            found.append(Place(source, Path(folder_name(source))))
    return _told_apart(found)


def folder_name(source: Path) -> str:
    """The file's name without its suffix; for a README, the name of its folder."""
    path = source.resolve()
    return _safe(path.parent.name if _is_index(path) and path.parent.name else path.stem)


def _is_index(path: Path) -> bool:
    return path.stem.lower() in _INDEXES


def _safe(name: str) -> str:
    return re.sub(r"[^\w.\-]+", "-", name).strip(".-")[:100] or "document"


def _in_tree(path: Path, root: Path) -> Path:
    """The folder of a document by its path in the folder `root`: `nvidia/a100` for `nvidia/a100/README.md`."""
    parts = path.parts[:-1] if _is_index(path) else (*path.parts[:-1], path.stem)
    return Path(*map(_safe, parts)) if parts else Path(folder_name(root / path))


def _markdown(root: Path) -> Iterator[Path]:
    """The Markdown files of a folder in a fixed order, without hidden files and folders."""
    count = 0
    for folder, folders, files in os.walk(root, onerror=_cannot_read):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(folder, name)
            if path.suffix.lower() in SUFFIXES and not name.startswith(".") and not path.is_symlink():
                count += 1
                if count > MAX_FILES:
                    raise UserError(f"{root}: more than {MAX_FILES} Markdown files, the most that are read")
                yield path


def _cannot_read(error: OSError) -> None:
    raise UserError(f"{error.filename}: {error.strerror}")


def _told_apart(found: Sequence[Place]) -> list[Place]:
    """The documents with names that differ: those that collide get the names of more of their folders."""
    by_folder = sorted(found, key=lambda place: (str(place.folder), str(place.source)))
    folders: dict[Path, Path] = {}
    taken = {place.folder for place in found}
    for folder, group in groupby(by_folder, key=lambda place: place.folder):
        same = list(group)
        if len(same) > 1:
            taken.discard(folder)
        for place in same:
            path = place.source.resolve()
            if path in folders:
                raise UserError(f"{place.source}: named twice, itself or as part of a folder")
            folders[path] = folder if len(same) == 1 else _longer(place, same, taken)
            taken.add(folders[path])
    return [Place(place.source, folders[place.source.resolve()], place.in_tree) for place in found]


def _longer(place: Place, same: Sequence[Place], taken: set[Path]) -> Path:
    """`x-a100` for `x/a100/README.md` beside `y/a100/README.md`; with the file's own name where that is not enough."""
    parents = place.source.resolve().parents[1 if _is_index(place.source) else 0 :]
    others = [other.source.resolve() for other in same if other is not place]
    for depth in range(1, len(parents)):
        own = [parent.name for parent in parents[:depth]]
        if all([name.name for name in _parents(other)[:depth]] != own for other in others):
            longer = place.folder.with_name(_safe("-".join([*reversed(own), place.folder.name])))
            if longer not in taken and not place.in_tree:
                return longer
    suffixed = place.folder.with_name(_safe(f"{place.folder.name}-{place.source.name}"))
    number, result = 2, suffixed
    while result in taken:
        number, result = number + 1, suffixed.with_name(f"{suffixed.name}-{number}")
    return result


def _parents(path: Path) -> Sequence[Path]:
    return path.parents[1 if _is_index(path) else 0 :]
