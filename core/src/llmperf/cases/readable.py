"""Whether everything that plugins ship can be read, before a run needs it."""

from __future__ import annotations

from llmperf.cases.library import library
from llmperf.cases.overlays import Facts, matching
from llmperf.cases.settings import from_tables
from llmperf.plugins.loading import Plugins


def check_readable(plugins: Plugins) -> None:
    """UserError with the first model, case or overlay of the loaded plugins that cannot be read."""
    shelf = library(plugins)
    matching(shelf, Facts(case="", device="", framework=""))  # reads every overlay's conditions
    for path, tables in shelf.overlays():
        from_tables({key: value for key, value in tables.items() if key != "when"}, str(path))
    for name in shelf.paths("models"):
        shelf.model(name)
    for name in shelf.paths("cases"):
        shelf.model(shelf.case(name).contract.model, f"case {name}")
