"""One file of all that the acceptance on a GPU left, for a machine that keeps nothing: to take home, to resume from."""

from __future__ import annotations

import tarfile
import zlib
from pathlib import Path

from gpu_call import STATE

MOST_BYTES = 15 * 2**20
"""Size limit of the archive; files that would exceed it are left out, and named."""
HEADER_BYTES = 512
"""Largest header of a member."""
FIRST = (STATE, "report.json", "report.md", "rates.json")
"""Files that resuming needs; always in the archive."""


def save(folder: Path, archive: Path, most_bytes: int = MOST_BYTES) -> list[str]:
    """Write the files of a folder into a compressed archive, small ones first; returns those that are left out.

    The archive is whole or, if the call is killed meanwhile, that of the call before.
    """
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    names = {path.relative_to(folder).as_posix(): path for path in paths if path.resolve() != archive.resolve()}
    order = sorted(names, key=lambda name: (name not in FIRST, names[name].stat().st_size))
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial, left_out, used = archive.with_name(archive.name + ".new"), [], 0
    with tarfile.open(partial, "w:gz", compresslevel=6) as tar:
        for name in order:
            size = len(zlib.compress(names[name].read_bytes(), 6)) + HEADER_BYTES
            if name not in FIRST and used + size > most_bytes:
                left_out.append(name)
                continue
            tar.add(names[name], arcname=name, recursive=False)
            used += size
    partial.replace(archive)
    return left_out


def resume(archive: Path, folder: Path) -> bool:
    """Unpack an earlier call's archive into a folder without a state of its own; False if it has one already."""
    if (folder / STATE).is_file():
        return False
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return True
