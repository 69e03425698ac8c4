"""Archives that somebody else made, unpacked without trust: bounded, regular files only, nothing outside the folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from llmperf.documents import MAX_DOCUMENT_BYTES, open_regular
from llmperf.errors import UserError

SUFFIXES = (".zip", ".tar.gz", ".tgz")
MAX_MEMBERS = 20_000
MAX_TOTAL_BYTES = 2 * 2**30
"""Of all members together, unpacked."""
MAX_NAME = 255
MAX_DEPTH = 16
BLOCK = 2**20


def is_archive(path: Path) -> bool:
    """Whether a file's name says that it is an archive of a kind that is read."""
    return path.name.lower().endswith(SUFFIXES)


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """A temporary folder with the archive's regular files, gone at the end.

    UserError if it cannot be read, is too large or has too many members, or if a member is a link, a device, stands
    twice, is encrypted, or has a name that leaves the folder.
    """
    import tarfile
    import zipfile
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="llmperf-") as scratch:
        folder = Path(scratch).resolve()
        try:
            if archive.name.lower().endswith(".zip"):
                _unzip(archive, folder)
            else:
                _untar(archive, folder)
        except (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, NotImplementedError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise UserError(f"{archive}: cannot be unpacked: {reason}") from None
        except Exception as error:  # zlib, lzma and bz2 raise each their own
            if type(error).__name__ in ("error", "LZMAError"):
                raise UserError(f"{archive}: cannot be unpacked: {error}") from None
            raise
        yield folder


def _unzip(archive: Path, folder: Path) -> None:
    import zipfile

    with open_regular(archive) as file, zipfile.ZipFile(file) as opened:
        writer = _Writer(archive, folder)
        for member in opened.infolist():
            if member.is_dir():
                continue
            kind = member.external_attr >> 28
            if kind not in (0, 8):  # set by Unix: 8 is a regular file
                raise _irregular(archive, member.filename)
            if member.flag_bits & 1:
                raise UserError(f"{archive}: {_shown(member.filename)} is encrypted")
            with opened.open(member) as source:
                writer.write(member.filename, source)


def _untar(archive: Path, folder: Path) -> None:
    import tarfile

    with open_regular(archive) as file, tarfile.open(fileobj=file, mode="r|gz") as opened:
        writer = _Writer(archive, folder)
        for member in opened:
            if member.isdir():
                continue
            if not member.isreg():
                raise _irregular(archive, member.name)
            source = opened.extractfile(member)
            assert source is not None
            writer.write(member.name, source)


class _Writer:
    """Writes members below a folder and counts what they cost, whatever their headers say."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self._archive = archive
        self._folder = folder
        self._members = 0
        self._bytes = 0

    def write(self, name: str, source: IO[bytes]) -> None:
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise UserError(f"{self._archive}: more than {MAX_MEMBERS} files")
        target = self._folder.joinpath(*self._parts(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            raise UserError(f"{self._archive}: {_shown(name)} stands twice")
        with target.open("xb") as file:
            size = 0
            while block := source.read(BLOCK):
                size += len(block)
                self._bytes += len(block)
                if size > MAX_DOCUMENT_BYTES or self._bytes > MAX_TOTAL_BYTES:
                    raise UserError(f"{self._archive}: {_shown(name)}: larger than what is unpacked")
                file.write(block)

    def _parts(self, name: str) -> tuple[str, ...]:
        path = PurePosixPath(name)
        parts = path.parts
        leaves = path.is_absolute() or ".." in parts or "\\" in name or ":" in name or not parts
        if leaves or len(name) > MAX_NAME or len(parts) > MAX_DEPTH or not name.isprintable():
            raise UserError(f"{self._archive}: expected names inside the archive, found {_shown(name)}")
        return parts


def _irregular(archive: Path, name: str) -> UserError:
    return UserError(f"{archive}: {_shown(name)}: expected a regular file, found a link or a device")


def _shown(name: str) -> str:
    return ascii(name[:80])
