"""Curves drawn with characters, for a terminal or a log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Points = Sequence[tuple[float, float]]

MARKS = "*ox+#@%&"
WIDTH, HEIGHT = 80, 20


def drawn(title: str, curves: Mapping[str, Points], colour: bool, log: bool = False) -> str:
    """Curves by their points (x, y), each under a mark of its own, which the last line explains.

    `log` draws log10(y), and leaves out y <= 0.
    """
    import plotext

    figure = plotext.figure
    figure.clear()
    figure.theme("simple" if colour else "colorless")  # both leave the background to the terminal
    figure.plot_size(WIDTH, HEIGHT)
    for mark, points in zip(marks(len(curves)), curves.values(), strict=True):
        shown = [(x, math.log10(y) if log else y) for x, y in points if y > 0 or not log]
        if shown:
            figure.draw(figure.signal([x for x, _ in shown], [y for _, y in shown], marker=mark))
    figure.legend(active=False)
    figure.title(f"log10 of {title}" if log else title)
    text = str(figure.build().string(colorless=not colour))
    figure.clear()
    explained = "   ".join(f"{mark} {name}" for mark, name in zip(marks(len(curves)), curves, strict=True))
    return "\n".join([*(line.rstrip() for line in text.splitlines()), f"     {explained}"])


def marks(number: int) -> str:
    """One mark for each curve; they come round again when they run out."""
    return (MARKS * (1 + number // len(MARKS)))[:number]
