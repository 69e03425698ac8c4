"""Results that were handed in before: the same figures in another document, or in another row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.types import Finding, Result
from llmperf.validation.rules.documents import REPEATED_RESULT

if TYPE_CHECKING:
    from llmperf.types.published import Published, PublishedRow


@dataclass
class Seen:
    """What has been read so far; 10,000 results take 2 MB."""

    places: dict[bytes, tuple[str, str]] = field(default_factory=dict)
    """Digest of the figures to the document that had them first: its identity, and its place for a message."""

    def of_result(self, result: Result, path: Path) -> Iterator[Finding]:
        """The same records, or the same measured figures, as an earlier result's."""
        figures = _of_result(result)
        if figures is not None:
            yield from self._enter(figures, str(path.resolve()), str(path), "")

    def of_published(self, published: Published, path: Path) -> Iterator[Finding]:
        """A row with the printed figures of an earlier one; the same document imported twice is no repetition."""
        for index, row in enumerate(published.rows):
            figures = _of_row(row)
            if figures is not None:
                source = f"{published.source.sha256}:{row.line}"
                yield from self._enter(figures, source, f"{path}, line {row.line}", f"/rows/{index}/metrics")

    def _enter(self, figures: tuple[str, ...], identity: str, place: str, pointer: str) -> Iterator[Finding]:
        digest = blake2b("\0".join(figures).encode("utf-8", "replace"), digest_size=16).digest()
        first, where = self.places.setdefault(digest, (identity, place))
        if first != identity:
            yield REPEATED_RESULT.finding(pointer, f"expected figures of its own, found those of {where}")


def _of_result(result: Result) -> tuple[str, ...] | None:
    records = sorted(digest for name, digest in result.files.items() if name.startswith("records/"))
    if records:
        return ("records", *records)
    metrics = result.metrics
    known = (metrics.tokens_per_second_per_device, metrics.window_seconds, metrics.final_loss)
    return None if None in known else ("figures", *map(repr, known))


def _of_row(row: PublishedRow) -> tuple[str, ...] | None:
    """Throughput and at least one more figure, as printed."""
    metrics = row.metrics
    throughput = metrics.tokens_per_second_per_device or metrics.tokens_per_second
    others = [one.text for one in (metrics.loss, metrics.mfu) if one is not None and one.value is not None]
    others += [metrics.memory.text] if metrics.memory is not None and metrics.memory.used else []
    if throughput is None or throughput.value is None or not others:
        return None
    return ("row", throughput.text, *others)
