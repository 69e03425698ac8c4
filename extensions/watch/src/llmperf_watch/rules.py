"""Rules over documents of watched programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import msgspec
from llmperf.types import Text, Violation
from llmperf.validation import close, rule

from llmperf_watch.figures import figures_of
from llmperf_watch.types import Figures, Spread, Watched

KIND = "watched"
AGREE = 0.05
"""A figure that the program printed and the same by our clock differ by at most this share."""


@rule("WATCH1", "error", "The figures follow from facts and steps", KIND)
def figures_follow(watched: Watched) -> Iterator[Violation]:
    columns = {field.name: len(getattr(watched.steps, field.name)) for field in fields(watched.steps)}
    count = columns["step"]
    for name, length in columns.items():
        if length not in (0, count) or (name == "at" and length != count):
            yield f"/steps/{name}", Text("expected {} values, as of step, found {}", count, length)
            return
    expected = figures_of(watched.steps, watched.facts, watched.clock)
    for field in fields(Figures):
        found, ours = (msgspec.to_builtins(getattr(one, field.name)) for one in (watched.figures, expected))
        for pointer, left, right in _different(found, ours, f"/figures/{field.name}"):
            yield pointer, Text("expected {} (computed again), found {}", _text(right), _text(left))
            break


def _different(found: object, ours: object, pointer: str) -> Iterator[tuple[str, object, object]]:
    if isinstance(found, dict) and isinstance(ours, dict) and found.keys() == ours.keys():
        for name in ours:
            yield from _different(found[name], ours[name], f"{pointer}/{name}")
    elif isinstance(found, (list, tuple)) and isinstance(ours, (list, tuple)) and len(found) == len(ours):
        for place, (left, right) in enumerate(zip(found, ours, strict=True)):
            yield from _different(left, right, f"{pointer}/{place}")
    elif isinstance(found, (int, float)) and isinstance(ours, (int, float)):
        if not close(found, ours):
            yield pointer, found, ours
    elif found != ours:
        yield pointer, found, ours


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, (int, float)) else f"{value!r:.80}"


@rule("WATCH2", "error", "MFU is at most 100 %", KIND)
def mfu_is_possible(watched: Watched) -> Iterator[Violation]:
    for place, mfu in enumerate(watched.figures.mfu):
        if mfu.value is not None and mfu.value > 1:
            message = Text("expected at most 100 % ({}), found {}", mfu.convention, f"{mfu.value:.1%}")
            yield f"/figures/mfu/{place}/value", message


@rule("WATCH3", "warning", "What the program prints agrees with the clock", KIND)
def printed_agrees(watched: Watched) -> Iterator[Violation]:
    for name in ("step_seconds", "tokens_per_second", "tokens_per_second_per_device"):
        ours: Spread | None = getattr(watched.figures, name)
        theirs = watched.figures.printed.get(name)
        if (
            ours is not None
            and theirs is not None
            and not any(
                close(printed, value, AGREE)
                for printed in (theirs.median, theirs.mean)
                for value in (ours.median, ours.mean)
            )
        ):
            message = Text(
                "expected about {} ({}), found {}", f"{ours.median:.6g}", ours.source, f"{theirs.median:.6g}"
            )
            yield f"/figures/printed/{name}/median", message
