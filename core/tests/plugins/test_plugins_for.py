"""The plugins whose rules and reporters apply to documents: every extension, and what the documents name."""

from __future__ import annotations

import pytest
from llmperf.errors import PluginError
from llmperf.plugins.loading import CORE_HOOKS, Plugins, plugins_for

VENDOR = """
from llmperf import hookimpl

@hookimpl
def llmperf_probe():
    return None

@hookimpl
def llmperf_reporters():
    return ["{name}'s reporter"]
"""


def reporters(plugins: Plugins) -> set[object]:
    """The reporters of the vendors that were installed for a test."""
    return {item for owner, item in plugins.collect_items("llmperf_reporters") if owner.startswith("vendor:")}


def test_all_named_vendors_are_loaded_together_and_no_others(install):
    for name in ("acme", "brand", "other"):
        install(f"llmperf-{name}", name, VENDOR.format(name=name))
    plugins = plugins_for([("vendor", "acme"), ("vendor", "brand"), ("vendor", "acme")])
    assert reporters(plugins) == {"acme's reporter", "brand's reporter"}
    with pytest.raises(PluginError, match="llmperf_probe is answered by vendor:acme and vendor:brand"):
        plugins.ask("llmperf_probe")


def test_plugins_that_are_broken_or_not_installed_are_skipped_and_named(install):
    install("llmperf-broken", "broken", "raise RuntimeError('no licence')")
    install("llmperf-misspelt", "misspelt", VENDOR.replace("llmperf_probe", "llmperf_prode"))
    install("llmperf-acme", "acme", VENDOR.format(name="acme"))
    plugins = plugins_for(("vendor", name) for name in ("acme", "broken", "../odd", "misspelt"))
    assert reporters(plugins) == {"acme's reporter"}
    assert plugins.absent == [("vendor", "../odd")]
    assert ["no licence" in line or "'llmperf_prode'" in line for line in plugins.left_out] == [True, True]
    assert [info.name for info in plugins.infos() if info.role == "vendor"] == ["acme"]


@pytest.mark.parametrize("hook", CORE_HOOKS)
def test_the_core_answers_through_the_same_hooks(hook):
    assert Plugins().answers(hook)
