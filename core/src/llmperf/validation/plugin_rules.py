"""The rules that installed plugins add (`llmperf_check_result`)."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.errors import PluginError
from llmperf.files import json_files
from llmperf.plugins.loading import Plugins
from llmperf.types import Finding, Result
from llmperf.validation.reading import printable
from llmperf.validation.rules.files import PLUGIN_FAILED


def plugin_findings(result: Result, plugins: Plugins) -> Iterator[Finding]:
    """What plugins have to say of a result; one that raises is a warning that ends the plugins' say."""
    try:
        yield from given_findings(result, plugins)
    except Exception as error:
        said = str(error) if isinstance(error, PluginError) else f"a plugin's llmperf_check_result raised {error!r}"
        yield PLUGIN_FAILED.finding("", printable(said)[:300])


def given_findings(result: Result, plugins: Plugins) -> Iterator[Finding]:
    """The same; PluginError or UserError for one that raises or gives something else than findings."""
    for owner, told in plugins.collect_items("llmperf_check_result", result=result):
        yield _checked(told, plugins.who(owner))


def _checked(told: object, who: str) -> Finding:
    """What a plugin gave as a finding; PluginError if it is none or has fields of another type."""
    if not isinstance(told, Finding):
        raise PluginError(f"{who}: expected a Finding of llmperf_check_result, found {type(told).__name__}")
    return json_files.convert(json_files.builtins(told), Finding, who)
