"""Unpacking of untrusted archives: bounded in size, regular files only, nothing outside the folder."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from llmperf.errors import UserError
from llmperf.files.json_files import MAX_DOCUMENT_BYTES, open_regular

if TYPE_CHECKING:
    from gzip import GzipFile
    from zipfile import ZipFile

SUFFIXES = (".zip", ".tar.gz", ".tgz")
MAX_MEMBERS = 20_000
MAX_TOTAL_BYTES = 2 * 2**30
"""Most bytes of all members together, unpacked."""
MAX_NAME = 255
MAX_DEPTH = 16
BLOCK = 2**20
MAX_HEADER_BYTES = 64 * 1024
"""Most bytes of one long name or extended header of a tar; the longest name that is taken has 255 characters."""
MAX_HEADERS_BYTES = 2**20
"""Most bytes of all that precedes a member of a tar."""
MAX_DIRECTORY_BYTES = 32 * 2**20
"""Most bytes of the list of members in a zip; of all long names and extended headers of a tar."""
ZIP_END_BYTES = 22
ZIP64_LOCATOR_BYTES = 20

_FAULTS = (NotImplementedError, ValueError, RecursionError)
"""Further errors of `zipfile` and `tarfile` on archives that are damaged, or made to be."""


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """A temporary folder with the archive's regular files, gone at the end.

    UserError if it cannot be read, is too large or has too many members, or if a member is a link, a device, appears
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
        except (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, *_FAULTS) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise UserError(f"{archive}: cannot be unpacked: {reason}") from None
        except Exception as error:  # zlib, lzma and bz2 raise each their own
            if type(error).__name__ in ("error", "LZMAError"):
                raise UserError(f"{archive}: cannot be unpacked: {error}") from None
            raise
        yield folder


def _unzip(archive: Path, folder: Path) -> None:
    import zipfile

    writer = _Writer(archive, folder)
    with open_regular(archive) as file:
        _check_directory(archive, file)
        with zipfile.ZipFile(file) as opened:
            _unzip_members(opened, archive, writer)


def _unzip_members(opened: ZipFile, archive: Path, writer: _Writer) -> None:
    for member in opened.infolist():
        if "\0" in member.orig_filename:  # zipfile cuts the name off there
            raise UserError(f"{archive}: expected names inside the archive, found {_shown(member.orig_filename)}")
        if member.is_dir():
            writer.count()
            continue
        kind = member.external_attr >> 28
        if kind not in (0, 8):  # set by Unix: 8 is a regular file
            raise _irregular(archive, member.filename)
        if member.flag_bits & 1:
            raise UserError(f"{archive}: {_shown(member.filename)} is encrypted")
        with opened.open(member) as source:
            writer.write(member.filename, source)


def _check_directory(archive: Path, file: BinaryIO) -> None:
    """UserError if the central directory of a zip, which `zipfile` reads whole, is larger than it may be."""
    end = file.seek(0, os.SEEK_END)
    tail_bytes = min(end, ZIP_END_BYTES + 2**16 + ZIP64_LOCATOR_BYTES)
    file.seek(end - tail_bytes)
    tail = file.read(tail_bytes)
    place = len(tail) - ZIP_END_BYTES
    if tail[place : place + 4] != b"PK\x05\x06" or tail[-2:] != b"\0\0":
        place = tail.rfind(b"PK\x05\x06")
    if place < 0 or len(tail) < place + ZIP_END_BYTES:
        return  # zipfile says that it is no archive
    large = tail[max(0, place - ZIP64_LOCATOR_BYTES) : place].startswith(b"PK\x06\x07")
    if large or int.from_bytes(tail[place + 12 : place + 16], "little") > MAX_DIRECTORY_BYTES:
        raise UserError(f"{archive}: more than {MAX_MEMBERS} members, or names longer than are read")


def _untar(archive: Path, folder: Path) -> None:
    import gzip
    import tarfile

    writer = _Writer(archive, folder)
    headers = _Headers(archive)

    class Entry(tarfile.TarInfo):
        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Entry:
            entry = super().frombuf(buf, encoding, errors)
            headers.check(entry.type, entry.size)
            return entry

    with open_regular(archive) as file, gzip.GzipFile(fileobj=file) as unzipped:
        stream = _Metered(archive, unzipped)
        with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|", tarinfo=Entry) as opened:
            while True:
                stream.allow(MAX_HEADERS_BYTES)
                if (member := opened.next()) is None:
                    return
                opened.members.clear()  # type: ignore[attr-defined]  # each keeps its headers
                if member.isdir():
                    writer.count()
                    continue
                if not member.isreg():
                    raise _irregular(archive, member.name)
                source = opened.extractfile(member)
                assert source is not None
                writer.write(member.name, source, stream)


class _Headers:
    """The headers of a tar archive, which `tarfile` reads whole: counted, and refused where they are large."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._count = 0
        self._global_bytes = 0
        self._bytes = 0

    def check(self, kind: bytes, size: int) -> None:
        """UserError for a header that no archive of files needs."""
        self._count += 1
        if self._count > 2 * MAX_MEMBERS:
            raise UserError(f"{self._archive}: more than {MAX_MEMBERS} members")
        if kind == b"S":
            raise UserError(f"{self._archive}: expected regular files, found a sparse one")
        if kind not in b"LKxgX":
            return
        self._bytes += size
        self._global_bytes += size if kind == b"g" else 0
        if max(size, self._global_bytes) > MAX_HEADER_BYTES or self._bytes > MAX_DIRECTORY_BYTES:
            limits = f"{MAX_HEADER_BYTES // 1024} KiB, and {MAX_DIRECTORY_BYTES // 2**20} MiB in all"
            raise UserError(f"{self._archive}: expected headers of at most {limits}, found one of {size} bytes")


class _Metered:
    """The unpacked stream of a tar archive, up to a limit that is raised for each accepted member."""

    def __init__(self, archive: Path, source: GzipFile) -> None:
        self._archive = archive
        self._source = source
        self._left = MAX_HEADERS_BYTES

    def allow(self, count: int) -> None:
        """Let so many bytes be read from here on."""
        self._left = count

    def read(self, size: int) -> bytes:
        """As of a file; UserError beyond the limit."""
        data = self._source.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise UserError(
                f"{self._archive}: expected headers of at most {MAX_HEADERS_BYTES // 1024} KiB for a member"
            )
        return data


class _Writer:
    """Writes members below a folder and counts their real sizes, whatever their headers say.

    Folders count as members.
    """

    def __init__(self, archive: Path, folder: Path) -> None:
        self._archive = archive
        self._folder = folder
        self._members = 0
        self._folders: set[Path] = set()
        self._names: dict[str, str] = {}
        """By their form without case and with normalised characters."""
        self._bytes = 0

    def count(self) -> None:
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise UserError(f"{self._archive}: more than {MAX_MEMBERS} members")

    def write(self, name: str, source: IO[bytes], stream: _Metered | None = None) -> None:
        self.count()
        target = self._folder.joinpath(*self._parts(name))
        self._make(target.parent)
        alike = unicodedata.normalize("NFKC", name).casefold()
        if target.exists() or self._names.setdefault(alike, name) != name:
            other = self._names.get(alike, name)
            as_what = "" if other == name else f", as {_shown(other)} on systems that do not tell the two apart"
            raise UserError(f"{self._archive}: {_shown(name)} occurs twice{as_what}")
        with target.open("xb") as file:
            size = 0
            while True:
                if stream is not None:
                    stream.allow(2 * BLOCK)
                if not (block := source.read(BLOCK)):
                    break
                size += len(block)
                self._bytes += len(block)
                if size > MAX_DOCUMENT_BYTES or self._bytes > MAX_TOTAL_BYTES:
                    raise UserError(f"{self._archive}: {_shown(name)}: larger than what is unpacked")
                file.write(block)

    def _make(self, folder: Path) -> None:
        """Make a folder of members and its parents; each counts as a member."""
        new = [
            one for one in (folder, *folder.parents) if one.is_relative_to(self._folder) and one not in self._folders
        ]
        self._folders.update(new)
        if len(self._folders) > MAX_MEMBERS:
            raise UserError(f"{self._archive}: more than {MAX_MEMBERS} folders")
        if new:
            folder.mkdir(parents=True, exist_ok=True)

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
