"""The rules that installed plugins add (`llmperf_check_result`)."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.errors import PluginError
from llmperf.plugins import Plugins
from llmperf.types import Finding, Result
from llmperf.validation.reading import printable
from llmperf.validation.rules.files import PLUGIN_FAILED


def plugin_findings(result: Result, plugins: Plugins) -> Iterator[Finding]:
    """What plugins have to say of a result; one that raises is a warning that ends the plugins' say."""
    try:
        for _, told in plugins.collect_items("llmperf_check_result", result=result):
            yield told
    except Exception as error:
        said = str(error) if isinstance(error, PluginError) else f"a plugin's llmperf_check_result raised {error!r}"
        yield PLUGIN_FAILED.finding("", printable(said)[:300])
