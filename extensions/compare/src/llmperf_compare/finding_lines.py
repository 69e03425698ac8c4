"""Lines of findings in the files that they are about, which CI services show beside the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from llmperf import read_bytes
from llmperf.errors import UserError
from llmperf.types import FileFindings
from llmperf.validation import pointer

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_TABLE = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]+")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")


def with_lines(files: Sequence[FileFindings]) -> list[FileFindings]:
    """The findings of files with the line of each, also where pointers lead into the text of the file itself."""
    return [
        file if file.lines else replace(file, lines=lines_of(file.path, (finding.path for finding in file.findings)))
        for file in files
    ]


def lines_of(path: Path, pointers: Iterable[str]) -> dict[str, int]:
    """The line from 1 of each pointer, of its parent where nothing is there; none for a file that cannot be read."""
    wanted = list(dict.fromkeys(pointers))
    try:
        text = read_bytes(path).decode("utf-8", "replace")
    except (UserError, OSError, ValueError):  # of these, a name that no file can have
        return {}
    parts = {pointer: pointer.split("/") for pointer in wanted}
    if path.suffix == ".jsonl":  # the first part is the index of the record
        return {place: int(keys[1]) + 1 for place, keys in parts.items() if len(keys) > 1 and keys[1].isdecimal()}
    parents = {place: ["/".join(keys[:end]) for end in range(len(keys), 0, -1)] for place, keys in parts.items()}
    if path.suffix == ".toml":
        known = _toml_lines(text)
    else:
        known = dict(_json_lines(text, {parent for each in parents.values() for parent in each}))
    return {place: next((known[one] for one in each if one in known), 1) for place, each in parents.items()}


def _json_lines(text: str, wanted: set[str]) -> Iterator[tuple[str, int]]:
    """Each wanted pointer that exists, with the line of its key, or of its value in an array."""
    stack: list[tuple[str, int | None]] = []  # pointer of each open container, and the index in it if it is an array
    line, at = 1, 0
    key: str | None = None
    place = ""
    for match in _TOKEN.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        token = match[0]
        if token in "}]:,":
            if token in "}]" and stack:
                stack.pop()
            elif token == ",":
                if stack and stack[-1][1] is not None:
                    stack[-1] = stack[-1][0], stack[-1][1] + 1
                key = None
            continue
        if stack and stack[-1][1] is None and key is None:
            key = token
            try:
                name = str(json.loads(token))
            except ValueError:  # no JSON string
                name = token
            place = stack[-1][0] + pointer([name])
            if place in wanted:
                yield place, line
                wanted.discard(place)
            continue
        if stack and stack[-1][1] is not None:
            place = f"{stack[-1][0]}/{stack[-1][1]}"
        if place in wanted:
            yield place, line
            wanted.discard(place)
        if token in "{[":
            stack.append((place, 0 if token == "[" else None))
            key = None


def _toml_lines(text: str) -> dict[str, int]:
    """Lines of tables and keys of TOML; an array of tables counts as one."""
    table, known = "", {}
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _TABLE.match(line):
            table = "/" + found[1].replace(".", "/")
            known[table] = number
        elif found := _KEY.match(line):
            known[f"{table}/{found[1].replace('.', '/')}"] = number
    return known
