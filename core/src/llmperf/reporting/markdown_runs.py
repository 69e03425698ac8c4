"""Several runs as one Markdown document: a table of all of them, then each under a heading of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from llmperf_published.reporting.cells import ranked_row, terminal_row
from llmperf_published.reporting.markdown import published_markdown
from llmperf_published.rules.verdicts import judged
from llmperf_published.types.document import Published

from llmperf.reporting.cells import markdown
from llmperf.reporting.markdown import render_markdown
from llmperf.reporting.ranking import in_order
from llmperf.reporting.table import HEADERS, ranked_result
from llmperf.reporting.words import word
from llmperf.types import Result


def render_runs(
    results: Sequence[Result], language: str = "en", documents: Sequence[tuple[Path, Published]] = ()
) -> str:
    """One result or imported document by itself; several below a table of all, in the order of that table.

    It does not depend on the order in which the results come.
    """
    if len(results) + len(documents) == 1:
        return render_markdown(results[0], language) if results else published_markdown(documents[0][1], language)
    ranked = sorted((ranked_result(one) for one in results), key=lambda one: tuple(one.line))
    published = [
        ranked_row(row, terminal_row(row, verdict, path.parent.name))
        for path, one in documents
        for row, verdict in zip(one.rows, judged(one)[1], strict=True)
    ]
    rows = in_order([*ranked, *published])
    count = word("{all} run" if len(rows) == 1 else "{all} runs", language).format(all=len(rows))
    lines = [
        f"# {word('Configuration and results', language)}, {count}",
        "",
        f"| {' | '.join(word(header, language) for header in HEADERS)} |",
        "|" + " --- |" * len(HEADERS),
        *(f"| {' | '.join(map(markdown, row))} |" for row in rows),
        "",
    ]
    place = {row[-1]: number for number, row in enumerate(rows)}
    in_table = sorted(results, key=lambda one: place[one.run_id])
    parts = [re.sub(r"(?m)^#", "##", render_markdown(one, language)) for one in in_table]
    parts += [re.sub(r"(?m)^##(?=#)", "#", published_markdown(one, language)) for _, one in documents]
    return "\n".join([*lines, "\n".join(parts)])
