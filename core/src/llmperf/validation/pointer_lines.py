"""The line of a file that a JSON pointer leads to, for programs that show findings beside the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files.json_files import read_bytes
from llmperf.validation.reading import pointer as pointer_of

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_TABLE = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]+")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")


def lines_of(path: Path, pointers: Iterable[str]) -> dict[str, int]:
    """The line from 1 of each pointer, of its parent where nothing is there; none for a file that cannot be read."""
    wanted = list(dict.fromkeys(pointers))
    try:
        text = read_bytes(path).decode("utf-8", "replace")
    except (UserError, OSError, ValueError):  # of these, a name that no file can have
        return {}
    if path.suffix == ".jsonl":
        return {pointer: number + 1 for pointer in wanted if (number := _record(pointer)) is not None}
    known = dict(_toml_lines(text) if path.suffix == ".toml" else _json_lines(text, _with_parents(wanted)))
    return {pointer: _nearest(pointer, known) for pointer in wanted}


def _record(pointer: str) -> int | None:
    """Index of the record that a pointer into a file of records begins with."""
    first = pointer.split("/")[1] if "/" in pointer else ""
    return int(first) if first.isdecimal() else None


def _with_parents(pointers: Iterable[str]) -> set[str]:
    return {"/".join(parts[:end]) for parts in (one.split("/") for one in pointers) for end in range(1, len(parts) + 1)}


def _nearest(pointer: str, known: Mapping[str, int]) -> int:
    while pointer and pointer not in known:
        pointer = pointer.rpartition("/")[0]
    return known.get(pointer, 1)


def _json_lines(text: str, wanted: set[str]) -> Iterator[tuple[str, int]]:
    """Each wanted pointer that exists, with the line of its key, or of its value in an array."""
    stack: list[tuple[str, int | None]] = []  # pointer of each open container, and the index in it if it is an array
    line, at = 1, 0
    key: str | None = None
    pointer = ""
    for match in _TOKEN.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        token = match[0]
        if token in "}]":
            if stack:
                stack.pop()
            continue
        if token == ",":
            if stack and stack[-1][1] is not None:
                stack[-1] = stack[-1][0], stack[-1][1] + 1
            key = None
            continue
        if token == ":":
            continue
        if stack and stack[-1][1] is None and key is None:
            key = token
            pointer = stack[-1][0] + pointer_of([_unescaped(token)])
            if pointer in wanted:
                yield pointer, line
                wanted.discard(pointer)
            continue
        if stack and stack[-1][1] is not None:
            pointer = f"{stack[-1][0]}/{stack[-1][1]}"
        if pointer in wanted:
            yield pointer, line
            wanted.discard(pointer)
        if token in "{[":
            stack.append((pointer, 0 if token == "[" else None))
            key = None


def _unescaped(token: str) -> str:
    """The text of a JSON string; other text is returned unchanged."""
    try:
        return str(json.loads(token))
    except ValueError:
        return token


def _toml_lines(text: str) -> Iterator[tuple[str, int]]:
    """Tables and keys of TOML; an array of tables counts as one."""
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _TABLE.match(line):
            table = "/" + found[1].replace(".", "/")
            yield table, number
        elif found := _KEY.match(line):
            yield f"{table}/{found[1].replace('.', '/')}", number
