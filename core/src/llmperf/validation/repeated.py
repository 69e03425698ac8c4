"""Results that were handed in before: the same figures in another document, or in another row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.types import Finding, Result
from llmperf.validation.rules.documents import REPEATED_RESULT

if TYPE_CHECKING:
    from llmperf_published.types.document import Published, PublishedMemory, PublishedRow


Figures = tuple[str, ...]


@dataclass
class Seen:
    """What has been read so far; 10,000 results take 4 MB at most."""

    places: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Hash of the figures (64 bits, keyed anew in each process) to the document that had them first: its identity,
    and its place for a message."""

    def of_result(self, result: Result, path: Path) -> Iterator[Finding]:
        """The same records, or the same measured figures, as an earlier result's."""
        identity, place = str(path.resolve()), str(path)
        told = [self._entered(figures, identity, place, "") for figures in _of_result(result)]
        yield from [one for one in told if one is not None][:1]

    def of_published(self, published: Published, path: Path) -> Iterator[Finding]:
        """A row with the printed figures of an earlier one; the same document imported twice is no repetition."""
        for index, row in enumerate(published.rows):
            figures = _of_row(row)
            if figures is not None:
                source = f"{published.source.sha256}:{row.line}"
                told = self._entered(figures, source, f"{path}, line {row.line}", f"/rows/{index}/metrics")
                yield from [told] if told else []

    def _entered(self, figures: Figures, identity: str, place: str, pointer: str) -> Finding | None:
        first, where = self.places.setdefault(hash(figures), (identity, place))
        if first == identity:
            return None
        return REPEATED_RESULT.finding(pointer, f"expected figures of its own, found those of {where}")


def _of_result(result: Result) -> Iterator[Figures]:
    """The records as they are, and the time of the steps to the last digit, in whatever files."""
    records = sorted(digest for name, digest in result.files.items() if name.startswith("records/"))
    if records:
        yield ("records", *records)
    metrics = result.metrics
    known = (metrics.tokens_per_second_per_device, metrics.window_seconds, metrics.final_loss)
    if None not in known:
        losses = (one.loss for one in result.loss_curve)
        yield ("figures", *map(repr, known), repr(metrics.step_seconds), *map(repr, losses))


def _of_row(row: PublishedRow) -> Figures | None:
    """Throughput and at least one more figure, by the numbers that are printed."""
    metrics = row.metrics
    throughput = metrics.tokens_per_second_per_device or metrics.tokens_per_second
    named = (("loss", metrics.loss), ("mfu", metrics.mfu))
    others = [f"{name} {one.value:.9g}" for name, one in named if one is not None and one.value is not None]
    others += [_of_memory(metrics.memory)] if metrics.memory is not None and metrics.memory.used else []
    if throughput is None or throughput.value is None or not others:
        return None
    return ("row", f"{throughput.value:.9g}", *others)


def _of_memory(memory: PublishedMemory) -> str:
    used = [(part.each.value, part.devices) for part in memory.used]
    return repr((used, memory.total and memory.total.value))
