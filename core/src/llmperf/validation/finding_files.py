"""Which files are documents of llmperf, and of what kind."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from llmperf.errors import UserError
from llmperf.files.json_files import open_regular
from llmperf.runfolder import filenames
from llmperf.submissions.archives import is_archive

Kind = Literal["result", "plan", "case", "model", "record", "manifest", "archive", "published", "readme", "unread"]
"""`unread`: a file or a folder that may hold documents, but may not be opened."""
MAX_FILES = 200_000
"""In one folder and below it; more is refused."""
SNIFFED_BYTES = 4096
MAX_README_BYTES = 2 * 2**20
MANIFEST = "manifest.json"
NONE_FOUND = "no result, plan, records, case, model or published document in this folder"
_THROUGHPUT = re.compile(r"tokens?\s*/|throughput|吞吐|mfu", re.IGNORECASE)
_NAMED = re.compile(r'"schema"\s*:\s*"llmperf/(result|plan|published)/')


@dataclass(frozen=True, slots=True)
class Document:
    """A file and what it holds."""

    path: Path
    kind: Kind
    named: bool = False
    """Whether somebody gave this path, not a folder above it."""
    why: str = ""
    """Why it is unread."""

    @property
    def refusal(self) -> UserError:
        """What to raise for one that is unread."""
        return UserError(f"{self.path}: {self.why}")


def documents_in(path: Path) -> Iterator[Document]:
    """The file, or the documents in a folder in the order of their names; UserError where there are none.

    What may not be opened in a folder is `unread`.
    """
    try:
        yield from _documents_in(path)
    except PermissionError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None


def _documents_in(path: Path) -> Iterator[Document]:
    if path.is_dir():
        yield from _in_folder(path)
        return
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    if not path.is_file():
        raise UserError(f"{path}: neither a file nor a folder")
    kind = kind_of(path)
    if kind is None:
        if path.suffix == ".toml":
            _check_syntax(path)
        known = "a result, a plan, records (.jsonl), a case or a model (.toml), an archive (.zip, .tar.gz)"
        raise UserError(f"{path}: expected {known}, a published document (.md)")
    yield Document(path, kind, named=True)


def _check_syntax(path: Path) -> None:
    """UserError for what is no TOML at all, which says more than that it is no case and no model."""
    from llmperf.files.toml_file import read_toml

    read_toml(path)


def _in_folder(root: Path) -> Iterator[Document]:
    found = 0
    closed: list[OSError] = []
    for path in _regular_files(root, closed.append):
        try:
            kind = kind_of(path)
        except OSError as error:
            closed.append(error)
            continue
        if kind is None or (kind == "record" and not _is_ours(path)) or (kind == "readme" and not _is_handed_in(path)):
            continue
        found += 1
        yield Document(path, kind)
    yield from (Document(Path(one.filename), "unread", why=str(one.strerror)) for one in closed)
    if not found and not closed:
        raise UserError(f"{root}: {NONE_FOUND}")


def _is_ours(path: Path) -> bool:
    """Lines of JSON are common; in a folder those count that a run leaves under their names."""
    return path.name == filenames.MEMORY or (path.parent.name == filenames.RECORDS and path.name.startswith("rank-"))


def _is_handed_in(path: Path) -> bool:
    """Markdown with figures in a table, not what llmperf itself writes beside a result or a manifest."""
    try:
        data = b"" if path.suffix == ".txt" else _at_most(path, MAX_README_BYTES)
    except OSError:
        return True  # so that it is told that it cannot be read
    text = data.decode("utf-8", "replace")
    return "|" in text and _THROUGHPUT.search(text) is not None and not _is_written(path)


def _at_most(path: Path, size: int) -> bytes:
    """A file's content; nothing of a larger one."""
    with open_regular(path) as file:
        data = file.read(size + 1)
    return data if len(data) <= size else b""


def _is_written(path: Path) -> bool:
    """Whether llmperf wrote the file: a report in a run folder, or the README that the results below it give."""
    if path.name == filenames.REPORT and any(
        (path.parent / name).is_file() for name in (filenames.RESULT, filenames.PLAN)
    ):
        return True
    if path.name != "README.md" or not (path.parent / MANIFEST).is_file():
        return False
    from llmperf.submissions.rendered import is_rendered

    return is_rendered(path)


def _regular_files(root: Path, closed: Callable[[OSError], None]) -> Iterator[Path]:
    """Regular files below a folder; links, pipes, devices and hidden folders are passed over.

    `closed` is told what cannot be looked into.
    """
    seen = 0
    for folder, folders, names in os.walk(root, onerror=closed):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            seen += 1
            if seen > MAX_FILES:
                raise UserError(f"{root}: more than {MAX_FILES} files; name the folders that matter")
            path = Path(folder, name)
            try:
                regular = stat.S_ISREG(path.lstat().st_mode)
            except OSError as error:
                closed(error)
                continue
            if regular:
                yield path


def kind_of(path: Path) -> Kind | None:
    """By name where that says it, else by how the file begins; None for anything else. OSError if it cannot be read."""
    if path.name == filenames.RESULT:
        return "result"
    if path.name == filenames.PLAN:
        return "plan"
    if is_archive(path):
        return "archive"
    if path.suffix == ".jsonl":
        return "record"
    if path.suffix == ".json":
        return _by_schema_name(path)
    if path.suffix == ".toml":
        return _by_keys(path)
    return "readme" if path.suffix in (".md", ".markdown", ".txt") else None


def _beginning(path: Path) -> str:
    with open_regular(path) as file:
        return file.read(SNIFFED_BYTES).decode("utf-8", "replace")


def _by_schema_name(path: Path) -> Kind | None:
    text = _beginning(path)
    named = _NAMED.search(text)
    if named is None or '"$schema"' in text:  # the latter is a JSON Schema, with an example in it
        return None
    kinds: dict[str, Kind] = {"result": "result", "plan": "plan", "published": "published"}
    return kinds[named[1]]


def _by_keys(path: Path) -> Kind | None:
    if path.parent.name == "cases":
        return "case"
    if path.parent.name == "models":
        return "model"
    lines = [line.strip() for line in _beginning(path).splitlines()]
    if any(line.startswith("[contract") for line in lines) and "[when]" not in lines:
        return "case"
    return "model" if any(line.startswith("vocab_size") for line in lines) else None
