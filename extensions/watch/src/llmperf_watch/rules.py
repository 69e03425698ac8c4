"""Rules over documents of watched programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product
from typing import Any

import msgspec
from llmperf.types import Text, Violation
from llmperf.validation import close, rule

from llmperf_watch.figures import figures_of
from llmperf_watch.types import Spread, Watched

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
    expected = dict(_leaves(msgspec.to_builtins(figures_of(watched.steps, watched.facts, watched.clock)), "/figures"))
    found = dict(_leaves(msgspec.to_builtins(watched.figures), "/figures"))
    for pointer in dict.fromkeys((*expected, *found)):
        left, right = found.get(pointer), expected.get(pointer)
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if not (close(left, right) if numbers else left == right):  # type: ignore[arg-type]
            yield pointer, Text("expected {} (computed again), found {}", _text(right), _text(left))


def _leaves(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (dict, list)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(part, f"{pointer}/{key}")
    else:
        yield pointer, value


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
    figures, batch = watched.figures, watched.facts.get("global_batch")
    seconds = figures.step_seconds
    samples = None
    if seconds is not None and batch is not None and not isinstance(batch.value, str):
        source = f"{batch.value:g} sequences ({batch.source}), {seconds.source}"
        mean, middle = batch.value / seconds.mean, batch.value / seconds.median
        samples = replace(seconds, median=middle, mean=mean, source=source)
    for name in ("step_seconds", "tokens_per_second", "tokens_per_second_per_device", "samples_per_second"):
        ours: Spread | None = samples if name == "samples_per_second" else getattr(figures, name)
        theirs = figures.printed.get(name)
        pairs = product((theirs.median, theirs.mean), (ours.median, ours.mean)) if ours and theirs else ()
        if ours and theirs and not any(close(printed, value, AGREE) for printed, value in pairs):
            expected, found = f"{ours.median:.6g}", f"{theirs.median:.6g}"
            message = Text("expected about {} ({}), found {}", expected, ours.source, found)
            yield f"/figures/printed/{name}/median", message


@rule("WATCH4", "warning", "The FLOP/s that the program prints follow a convention", KIND)
def printed_flops_follow(watched: Watched) -> Iterator[Violation]:
    printed = watched.figures.printed.get("flops_per_second_per_device")
    each, mfu = watched.figures.tokens_per_second_per_device, watched.figures.mfu
    if printed is not None and each is not None and mfu:
        rates = {count.convention: each.mean * count.flops_per_token for count in mfu}
        name = min(rates, key=lambda name: abs(rates[name] - printed.mean))
        if not any(close(value, rates[name], AGREE) for value in (printed.mean, printed.median)):
            expected, found = f"{rates[name]:.4g}", f"{printed.mean:.4g}"
            message = Text("expected about {} ({}, the nearest convention), found {}", expected, name, found)
            yield "/figures/printed/flops_per_second_per_device/mean", message
