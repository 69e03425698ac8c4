"""The rules that installed plugins add (`llmperf_check_result`)."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf import documents
from llmperf.errors import PluginError
from llmperf.plugins import Plugins
from llmperf.types import Finding, Result
from llmperf.validation.reading import printable
from llmperf.validation.rules.files import PLUGIN_FAILED


def plugin_findings(result: Result, plugins: Plugins) -> Iterator[Finding]:
    """What plugins have to say of a result; one that raises is a warning that ends the plugins' say."""
    try:
        for name, told in plugins.collect("llmperf_check_result", result=result):
            for one in told:
                yield _checked(one, name)
    except Exception as error:
        cause = printable(f"{type(error).__name__}: {error}")[:200]
        yield PLUGIN_FAILED.finding("", f"a plugin's llmperf_check_result raised {cause}")


def _checked(told: object, name: str) -> Finding:
    """What a plugin gave as a finding; PluginError if it is none or has fields of another type."""
    if not isinstance(told, Finding):
        raise PluginError(f"{name}: expected a Finding, found {type(told).__name__}")
    return documents.convert(documents.builtins(told), Finding, name)
