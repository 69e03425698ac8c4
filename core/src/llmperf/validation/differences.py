"""Where a result and the one computed again from its records differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmperf.files.json_files import builtins
from llmperf.types import Result

NOT_REBUILT = ("findings", "files")
"""Parts of a result that do not come from the records, or are checked by their own rule."""
Parts = tuple[str | int, ...]
"""Of a JSON pointer."""


def differences(found: Result, rebuilt: Result) -> Iterator[tuple[Parts, Any, Any]]:
    """Place, value found and value expected wherever a result is not the one its records give."""
    return _differences(_comparable(found), _comparable(rebuilt), ())


def _comparable(result: Result) -> dict[str, Any]:
    document: dict[str, Any] = builtins(result)
    if document["failure"] is not None:
        # from the logs, which may have been left out when the folder was handed on
        del document["failure"]["log_tail"]
    return {name: value for name, value in document.items() if name not in NOT_REBUILT}


def _differences(found: Any, expected: Any, path: Parts) -> Iterator[tuple[Parts, Any, Any]]:
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            yield from _differences(found.get(key), expected.get(key), (*path, key))
    elif isinstance(found, (list, tuple)) and isinstance(expected, (list, tuple)) and len(found) == len(expected):
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from _differences(one, other, (*path, index))
    elif not _same(found, expected):
        yield path, found, expected


def _same(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and isinstance(expected, float):
        # another Python or numpy may round the last bits of a mean otherwise
        return abs(found - expected) <= 1e-9 * max(abs(found), abs(expected))
    return bool(found == expected)
