"""Files and folders as sheets, baselines and summaries, whatever kinds of document are in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from llmperf.errors import UserError
from llmperf.plugins.loading import Plugins, plugins_for
from llmperf.reporting.result_sheets import result_sheet
from llmperf.types import Baseline, Result, Section, Sheet
from llmperf.validation.check import Validator
from llmperf.validation.reading_results import found_reportable


def read_sheets(
    paths: Sequence[Path], left_out: Callable[[UserError], None] | None = None
) -> tuple[list[Sheet], Plugins]:
    """The sheets of all documents at some paths, and the plugins that these name.

    Findings are made here: those that a document lists are not trusted. UserError if there is nothing to report, or for
    a file that cannot be read; files in a folder that cannot be read are passed to `left_out`, if given.
    """
    results, published = found_reportable(paths, left_out)
    plugins = plugins_for({(plugin.role, plugin.name) for _, result in results for plugin in result.plugins})
    validator = Validator(plugins)
    sheets = [result_sheet(result, path, tuple(validator.of_result(result, path))) for path, result in results]
    if published:
        from llmperf_published.reporting.sheets import published_sheets

        for path, document in published:
            rows = list(published_sheets(document, path, tuple(validator.of_published(document, path))))
            if not rows and left_out is not None:
                left_out(UserError(f"{path}: no rows to report"))
            sheets += rows
    if not sheets:
        raise UserError(f"{paths[0]}: expected results or published rows, found documents without rows")
    return sheets, plugins


def read_results(path: Path) -> tuple[tuple[Path, Result], ...]:
    """The results at a path, each with its file; empty if there are only documents of other kinds."""
    return found_reportable([path])[0]


def read_baselines(name: str) -> tuple[str, list[Baseline]]:
    """The figures at a path, or those that the kind of document with this name ships; and the name of the kind."""
    from llmperf_published.baselines import SHIPPED, published_baselines

    path = SHIPPED if name == "published" else Path(name)
    if not path.exists():
        raise UserError(f"{name}: no such file or folder")
    _, published = found_reportable([path])
    figures = [baseline for file, document in published for baseline in published_baselines(document, file)]
    if not figures:
        raise UserError(f"{path}: expected imported documents (llmperf import), found none")
    return "published", figures


def summaries(paths: Sequence[Path]) -> Iterator[Section]:
    """A summary for each kind of document at some paths that has one."""
    _, published = found_reportable(paths)
    if published:
        from llmperf_published.reporting.summary import summary

        yield summary(published)
