"""Options of this plugin (`framework.*`). Imports no paddle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from llmperf.types import Problem

CHOICES: Mapping[str, tuple[object, ...]] = {
    "amp_level": ("O1", "O2"),
    "split_param": (False, True),
}
"""`amp_level`: O2 (default) keeps 16-bit weights and float32 master weights, O1 float32 weights.
`split_param`: stage 1 divides each parameter's state evenly (fleet's V2), not whole parameters (V1, the default)."""
SEGMENT_SIZE = 2**20
"""Paddle's default of `framework.segment_size`: at stage 3, parameters of up to so many elements stay whole."""
NAMES = (*CHOICES, "segment_size")


def option_problems(options: Mapping[str, object]) -> Iterator[Problem]:
    """Options that this plugin does not have, and values they cannot take."""
    for name, value in options.items():
        where = f"framework.{name}"
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(sorted(NAMES))}"
            yield Problem(code="paddle.option", where=where, message=f"paddle has no such option; {hint}")
        elif name == "segment_size":
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                yield Problem(
                    code="paddle.option",
                    where=where,
                    message=f"expected a number of elements, 0 or more, found {value!r}",
                )
        elif not any(value == one and isinstance(value, type(one)) for one in CHOICES[name]):
            known = f"one of {', '.join(repr(one) for one in CHOICES[name])}"
            known = "true or false" if set(CHOICES[name]) == {False, True} else known
            yield Problem(code="paddle.option", where=where, message=f"expected {known}, found {value!r}")


def amp_level(options: Mapping[str, object], precision: str) -> str | None:
    """How 16-bit precisions are mixed with float32; None where there is nothing to mix."""
    return str(options.get("amp_level", "O2")) if precision in ("bf16", "fp16") else None
