"""Unpacking of untrusted archives: bounded in size, regular files only, nothing outside the folder."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from llmperf import MAX_DOCUMENT_BYTES, open_regular
from llmperf.errors import UserError

if TYPE_CHECKING:
    from gzip import GzipFile

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


class _Unacceptable(Exception):
    """An archive that is not unpacked; the message says why."""


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """A temporary folder with the archive's regular files; UserError for links, encryption, or too much."""
    from tarfile import TarError
    from tempfile import TemporaryDirectory
    from zipfile import BadZipFile

    with TemporaryDirectory(prefix="llmperf-") as scratch:
        folder = Path(scratch).resolve()
        try:
            (_unzip if archive.name.lower().endswith(".zip") else _untar)(archive, _Writer(folder))
        except UserError:
            raise
        except _Unacceptable as error:
            raise UserError(f"{archive}: {error}") from None
        except Exception as error:  # zipfile, tarfile and each compression raise many kinds on damaged archives
            kinds = (OSError, EOFError, NotImplementedError, ValueError, RecursionError, BadZipFile, TarError)
            if not isinstance(error, kinds) and type(error).__name__ not in ("error", "LZMAError"):
                raise
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise UserError(f"{archive}: cannot be unpacked: {reason}") from None
        yield folder


def _unzip(archive: Path, writer: _Writer) -> None:
    import zipfile

    with open_regular(archive) as file:
        _check_directory(file)
        with zipfile.ZipFile(file) as opened:
            for member in opened.infolist():
                if "\0" in member.orig_filename:  # zipfile cuts the name off there
                    raise _Unacceptable(f"expected names inside the archive, found {_shown(member.orig_filename)}")
                if member.is_dir():
                    writer.count()
                    continue
                if member.external_attr >> 28 not in (0, 8):  # set by Unix: 8 is a regular file
                    raise _irregular(member.filename)
                if member.flag_bits & 1:
                    raise _Unacceptable(f"{_shown(member.filename)} is encrypted")
                with opened.open(member) as source:
                    writer.write(member.filename, source)


def _check_directory(file: BinaryIO) -> None:
    """Refuse a zip whose central directory, which `zipfile` reads whole, is larger than it may be."""
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
        raise _Unacceptable(f"more than {MAX_MEMBERS} members, or names longer than are read")


def _untar(archive: Path, writer: _Writer) -> None:
    import gzip
    import tarfile

    headers = _Headers()

    class Entry(tarfile.TarInfo):
        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Entry:
            entry = super().frombuf(buf, encoding, errors)
            headers.check(entry.type, entry.size)
            return entry

    with open_regular(archive) as file, gzip.GzipFile(fileobj=file) as unzipped:
        stream = _Metered(unzipped)
        with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|", tarinfo=Entry) as opened:
            while True:
                stream.left = MAX_HEADERS_BYTES
                if (member := opened.next()) is None:
                    return
                opened.members.clear()  # type: ignore[attr-defined]  # each keeps its headers
                if member.isdir():
                    writer.count()
                    continue
                if not member.isreg():
                    raise _irregular(member.name)
                source = opened.extractfile(member)
                assert source is not None
                writer.write(member.name, source, stream)


class _Headers:
    """The headers of a tar archive, which `tarfile` reads whole: counted, and refused where they are large."""

    def __init__(self) -> None:
        self._count = self._global_bytes = self._bytes = 0

    def check(self, kind: bytes, size: int) -> None:
        """Refuse a header that no archive of files needs."""
        self._count += 1
        if self._count > 2 * MAX_MEMBERS:
            raise _Unacceptable(f"more than {MAX_MEMBERS} members")
        if kind == b"S":
            raise _Unacceptable("expected regular files, found a sparse one")
        if kind not in b"LKxgX":
            return
        self._bytes += size
        self._global_bytes += size if kind == b"g" else 0
        if max(size, self._global_bytes) > MAX_HEADER_BYTES or self._bytes > MAX_DIRECTORY_BYTES:
            limits = f"{MAX_HEADER_BYTES // 1024} KiB, and {MAX_DIRECTORY_BYTES // 2**20} MiB in all"
            raise _Unacceptable(f"expected headers of at most {limits}, found one of {size} bytes")


class _Metered:
    """The unpacked stream of a tar archive, of which `left` bytes may be read."""

    def __init__(self, source: GzipFile) -> None:
        self._source = source
        self.left = MAX_HEADERS_BYTES

    def read(self, size: int) -> bytes:
        """As of a file, up to the limit."""
        data = self._source.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise _Unacceptable(f"expected headers of at most {MAX_HEADERS_BYTES // 1024} KiB for a member")
        return data


class _Writer:
    """Writes members, folders included, below a folder and counts their real sizes, whatever their headers say."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._members = self._bytes = 0
        self._folders: set[Path] = set()
        self._names: dict[str, str] = {}
        """By their form without case and with normalised characters."""

    def count(self) -> None:
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise _Unacceptable(f"more than {MAX_MEMBERS} members")

    def write(self, name: str, source: IO[bytes], stream: _Metered | None = None) -> None:
        self.count()
        path = PurePosixPath(name)
        parts = path.parts
        leaves = path.is_absolute() or ".." in parts or "\\" in name or ":" in name or not parts
        if leaves or len(name) > MAX_NAME or len(parts) > MAX_DEPTH or not name.isprintable():
            raise _Unacceptable(f"expected names inside the archive, found {_shown(name)}")
        target = self._folder.joinpath(*parts)
        self._make(target.parent)
        alike = unicodedata.normalize("NFKC", name).casefold()
        if target.exists() or self._names.setdefault(alike, name) != name:
            other = self._names.get(alike, name)
            as_what = "" if other == name else f", as {_shown(other)} on systems that do not tell the two apart"
            raise _Unacceptable(f"{_shown(name)} occurs twice{as_what}")
        with target.open("xb") as file:
            size = 0
            while True:
                if stream is not None:
                    stream.left = 2 * BLOCK
                if not (block := source.read(BLOCK)):
                    break
                size += len(block)
                self._bytes += len(block)
                if size > MAX_DOCUMENT_BYTES or self._bytes > MAX_TOTAL_BYTES:
                    raise _Unacceptable(f"{_shown(name)}: larger than what is unpacked")
                file.write(block)

    def _make(self, folder: Path) -> None:
        """Make a folder of members and its parents; each counts as a member."""
        above = (folder, *folder.parents)
        new = {each for each in above if each.is_relative_to(self._folder) and each not in self._folders}
        self._folders |= new
        if len(self._folders) > MAX_MEMBERS:
            raise _Unacceptable(f"more than {MAX_MEMBERS} folders")
        if new:
            folder.mkdir(parents=True, exist_ok=True)


def _irregular(name: str) -> _Unacceptable:
    return _Unacceptable(f"{_shown(name)}: expected a regular file, found a link or a device")


def _shown(name: str) -> str:
    return ascii(name[:80])
