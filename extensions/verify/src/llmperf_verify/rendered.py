"""The README and the reports of a submission against what its results give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files.json_files import read_bytes
from llmperf.runfolder import filenames
from llmperf.submissions.members import README
from llmperf.types import Result, Text
from llmperf.validation.reading import shown

Difference = tuple[int, str]
"""Line, and what was expected and found in it."""


def differences(folder: Path) -> Iterator[tuple[Path, Difference]]:
    """Where the README and each report of an unpacked submission differ from what llmperf writes.

    Nothing if a result cannot be read, which is a finding of that result.
    """
    results = dict(_results(folder))
    for path, result in results.items():
        if result is not None:
            yield from _of_file(path.with_name(filenames.REPORT), [result])
    readable = [one for one in results.values() if one is not None]
    if readable and len(readable) == len(results):
        yield from _of_file(folder / README, readable)


def is_rendered(readme: Path) -> bool:
    """Check whether a README is what `llmperf pack` writes of the runs in its folder."""
    results = [result for _, result in _results(readme.parent)]
    readable = [one for one in results if one is not None]
    return bool(results) and len(readable) == len(results) and not any(_of_file(readme, readable))


def _results(folder: Path) -> Iterator[tuple[Path, Result | None]]:
    """The result of each run folder, by name; None where it cannot be read. Links are not followed."""
    from llmperf.validation.document_files import read_result

    for path in sorted(folder.glob(f"*/{filenames.RESULT}")):
        if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
            continue
        try:
            yield path, read_result(path)
        except UserError:
            yield path, None


def _of_file(path: Path, results: Sequence[Result]) -> Iterator[tuple[Path, Difference]]:
    if path.is_file() and not path.is_symlink():
        text = read_bytes(path).decode("utf-8", "replace")
        difference = _first_difference(text, _expected(text, results))
        if difference is not None:
            yield path, difference


def _expected(text: str, results: Sequence[Result]) -> str:
    """The text that llmperf writes of the results, in the language of a document."""
    from llmperf.reporting.language import require
    from llmperf.reporting.markdown import TITLE, render_results

    language = "en" if TITLE in text.partition("\n")[0] else "zh"
    require(language, "a submission in")
    return render_results(results, language).encode("utf-8", "backslashreplace").decode()


def _first_difference(text: str, expected: str) -> Difference | None:
    if text == expected:
        return None
    pairs = zip_longest(text.split("\n"), expected.split("\n"))
    number, found, right = next((n, one, other) for n, (one, other) in enumerate(pairs, 1) if one != other)
    characters = zip_longest(found or "", right or "")
    same = next((n for n, (one, other) in enumerate(characters) if one != other), 0)
    return number, Text("expected {}, as the results give, found {}", _line(right, same), _line(found, same))


def _line(text: str | None, same: int) -> str:
    """A line from a little before its difference on."""
    return Text("the end") if text is None else shown(text[max(0, same - 20) :])
