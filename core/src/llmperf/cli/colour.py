"""Colour of the output: `--color`, then NO_COLOR, FORCE_COLOR and TERM=dumb, then whether it is a terminal."""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar

import click

from llmperf.files.text import printable

COLOURS = {
    **dict.fromkeys(("failed", "aborted", "error", "invalid", "slower", "lower", "broken", "imported: wrong"), "red"),
    **dict.fromkeys(("complete", "ok", "faster", "higher", "imported: agrees"), "green"),
    **dict.fromkeys(("warning", "refused", "missing"), "yellow"),
}
"""Colours of statuses and severities."""

choice: ContextVar[bool | None] = ContextVar("colour", default=None)
"""The choice of this command line, also where click has no context any more; None where each stream decides."""
_SEVERITY = r"(?P<before>^|\b[A-Z]{2,4}\d{3} )(?P<word>error|warning|错误|警告)(?P<after>: | )"


def from_environment() -> bool | None:
    """True or False where the environment decides; None where each stream does, by being a terminal or not."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE"):
        return True
    return False if os.environ.get("TERM") == "dumb" else None


def on_stdout() -> bool:
    """Check whether standard output takes colours."""
    chosen = choice.get()
    return sys.stdout.isatty() if chosen is None else chosen


def _choose(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is None or ctx.resilient_parsing:
        return
    ctx.color = {"always": True, "never": False}.get(value, from_environment())
    choice.set(ctx.color)


class ColourOption(click.Option):
    """`--color`, which the group and every command take."""

    def __init__(self) -> None:
        super().__init__(
            ["--color"],
            type=click.Choice(["auto", "always", "never"]),
            is_eager=True,
            expose_value=False,
            callback=_choose,
            help="When to colour the output. [auto: on terminals, unless NO_COLOR is set]",
        )


def painted(word: str, text: str | None = None) -> str:
    """A text in the colour of a status or severity: of `word` up to its first colon or comma."""
    shown = word if text is None else text
    if word == "context":
        return click.style(shown, dim=True)
    head = min((word.partition(mark)[0] for mark in ":,：，"), key=len)
    if word.isascii():
        colour = COLOURS.get(word) or COLOURS.get(head)
    else:
        from llmperf.reporting.words import word as translated

        colour = next((colour for english, colour in COLOURS.items() if translated(english, "zh") == head), None)
    return click.style(shown, fg=colour) if colour else shown


def painted_severities(text: str) -> str:
    """Lines in which `warning:` at their beginning, and the severity after the code of a finding, are coloured."""

    import re

    def paint(match: re.Match[str]) -> str:
        return f"{match['before']}{painted(match['word'])}{match['after']}"

    return "\n".join(re.sub(_SEVERITY, paint, line, count=1) for line in text.split("\n"))


def warn(message: str) -> None:
    """`llmperf: warning: ...` on standard error."""
    click.echo(f"llmperf: {painted('warning')}: {printable(message)}", err=True)
