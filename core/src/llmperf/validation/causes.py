"""One finding for one cause: findings that repeat for each convention, rank, node, step or row are counted in one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from llmperf.types.documents import FileFindings
from llmperf.types.result import Finding
from llmperf.types.texts import Text

CONVENTIONS = ("/mfu/*", "/flops/per_token/*")
"""Lists whose entries are one figure under several conventions: what is wrong with one is wrong with all."""
MORE = "{}; and {} more of this kind"
_INDEX = re.compile(r"/\d+(?=/|$)|(?<=/records~1)(?:rank|node)-\d+")
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


def by_cause(findings: Sequence[Finding]) -> list[Finding]:
    """The first finding of each cause, with the number of the others.

    Findings of one rule have one cause if their pointers differ in indices or in the rank of records only, and their
    messages in numbers only.
    """
    causes: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        pointer = _INDEX.sub("/*", finding.path)
        message = "" if pointer.startswith(CONVENTIONS) else _NUMBER.sub("0", finding.message)
        causes.setdefault((finding.code, pointer, message), []).append(finding)
    return [found for first, *others in causes.values() for found in with_rest([first], len(others))]


def with_rest(listed: Sequence[Finding], rest: int, template: str = MORE) -> list[Finding]:
    """Findings, the last of which says how many more there are, by a template of its message and their number."""
    if rest <= 0:
        return list(listed)
    last = listed[-1]
    message = last.message
    if last.more and isinstance(message, Text) and message.template == MORE:
        message = cast(str, message.values[0])
    rest += last.more
    return [*listed[:-1], replace(last, message=Text(template, message, rest), more=rest)]


class Repeats:
    """Warnings and notes that several results have word for word: of one machine, or of copies of one run."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._repeated: dict[int, tuple[Finding, int]] = {}

    def without(self, file: FileFindings) -> FileFindings:
        """The findings of a result that no earlier one has; files of other kinds stay as they are."""
        if file.kind != "result":
            return file
        kept = []
        for finding in file.findings:
            key = hash((finding.code, finding.path, finding.message))
            if finding.severity == "error" or key not in self._seen:
                self._seen.add(key)
                kept.append(finding)
            else:
                self._repeated[key] = finding, self._repeated.get(key, (finding, 0))[1] + 1
        return replace(file, findings=tuple(kept))

    def listed(self) -> Iterator[tuple[Finding, int]]:
        """Findings that were left out, each once, with the number of files."""
        yield from self._repeated.values()
