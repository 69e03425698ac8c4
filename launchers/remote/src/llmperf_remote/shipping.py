"""Files of a run on their way from a node to the controller: what the node sends, and where the controller keeps it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from llmperf import write_bytes
from llmperf.errors import UserError
from llmperf.launching import HEAD_BYTES, RECORD_FOLDERS, TAIL_BYTES, files_of_node, sound_report
from llmperf.types import Layout

from llmperf_remote.messages import PIECE_BYTES, Piece, packed, unpacked

REWRITTEN = ".json"
"""Files with this ending are replaced as a whole; the others only grow."""
MAX_MEMORY_BYTES = 2**30
RANK_BYTES, STEP_BYTES = 64 * 2**20, 2000
"""Upper bounds of the records of a rank: without its steps, and of each step."""
MAX_LOG_BYTES = HEAD_BYTES + TAIL_BYTES + 2 * 2**20


class Shipper:
    """Sends what the files of a node's run folder gain; of logs the first HEAD_BYTES, then the shortened whole."""

    def __init__(
        self, run: Path, node: int, send: Callable[[Piece], bool], sent: Mapping[str, int] | None = None
    ) -> None:
        """`send` returns False if it takes nothing more at present; `sent` has what the controller has, in bytes."""
        self._run = run
        self._node = node
        self._send = send
        self._sent = dict(sent or {})
        self._rewritten: dict[str, tuple[int, int]] = {}
        """Time and size of files that were sent as a whole."""

    def ship(self, final: bool = False) -> bool:
        """Send what is new; returns whether everything was sent. `final`: nothing is written any more."""
        return all([self._ship_file(path, final) for path in self._files()])

    def _files(self) -> Iterator[Path]:
        for parent in RECORD_FOLDERS:
            with suppress(OSError):
                paths = sorted((self._run / parent).iterdir())
                yield from (path for path in paths if path.is_file() and not path.name.startswith("."))

    def _ship_file(self, path: Path, final: bool) -> bool:
        name = path.relative_to(self._run).as_posix()
        try:
            status = path.stat()
        except OSError:
            return True
        if path.suffix == REWRITTEN:
            state = (status.st_mtime_ns, status.st_size)
            if self._rewritten.get(name) != state:
                data = self._read(path, 0, PIECE_BYTES)
                if not self._send(Piece(node=self._node, file=name, offset=0, data=packed(data))):
                    return False
                self._rewritten[name] = state
            return True
        limit = status.st_size
        if path.suffix == ".log":
            if final and name not in self._rewritten:
                self._rewritten[name] = (0, 0)
                self._sent[name] = 0 if limit > HEAD_BYTES else self._sent.get(name, 0)
            limit = limit if final else min(limit, HEAD_BYTES)
        while (sent := self._sent.get(name, 0)) < limit:
            data = self._read(path, sent, min(PIECE_BYTES, limit - sent))
            if not data:
                break
            if not self._send(Piece(node=self._node, file=name, offset=sent, data=packed(data))):
                return False
            self._sent[name] = sent + len(data)
        return True

    @staticmethod
    def _read(path: Path, offset: int, size: int) -> bytes:
        with suppress(OSError), path.open("rb") as file:
            file.seek(offset)
            return file.read(size)
        return b""


class Receiver:
    """Writes the pieces that a node sends into the controller's run folder, each file in order."""

    def __init__(self, run: Path, layout: Layout, steps: int) -> None:
        """`steps`: of the run, which bound the size of its records."""
        self._run = run
        self._layout = layout
        self._rank_bytes = RANK_BYTES + STEP_BYTES * steps
        self._allowed: dict[int, set[str]] = {}
        self.sizes: dict[str, int] = {}
        """Bytes of each file that have come."""

    def take(self, piece: Piece) -> None:
        """Write a piece; UserError if the node may not, or the disk is full."""
        where = f"node {piece.node}: {piece.file[:200]!r}"
        if piece.node not in self._allowed:
            self._allowed[piece.node] = files_of_node(piece.node, self._layout)
        if piece.file not in self._allowed[piece.node]:
            raise UserError(f"{where}: expected a file of its own ranks")
        data = unpacked(piece.data, where)
        size = self.sizes.get(piece.file, 0)
        if piece.offset not in (0, size) or piece.offset + len(data) > self._limit(piece.file):
            raise UserError(f"{where}: expected bytes at 0 or {size}, found {len(data)} bytes at {piece.offset}")
        path = self._run / piece.file
        try:
            if path.suffix == REWRITTEN:
                write_bytes(path, sound_report(piece.file, data, piece.node, self._layout, where))
            else:
                self._append(path, piece.offset, data)
        except OSError as error:
            raise UserError(f"{path}: cannot write: {error.strerror}") from None
        self.sizes[piece.file] = piece.offset + len(data)

    def _limit(self, name: str) -> int:
        if name.endswith(REWRITTEN):
            return PIECE_BYTES
        if name.endswith(".log"):
            return MAX_LOG_BYTES
        return MAX_MEMORY_BYTES if "/memory-" in name else self._rank_bytes

    @staticmethod
    def _append(path: Path, offset: int, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags | (os.O_TRUNC if offset == 0 else 0), 0o644)
        try:
            view = memoryview(data)
            while view:
                written = os.pwrite(descriptor, view, offset)
                view, offset = view[written:], offset + written
        finally:
            os.close(descriptor)
