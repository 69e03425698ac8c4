"""The variables of the ranks: every loaded plugin's, joined."""

from __future__ import annotations

from collections.abc import Mapping

from llmperf.errors import PluginError
from llmperf.plugins.loading import Plugins
from llmperf.types.plan import Plan


def worker_env(plan: Plan, plugins: Plugins) -> dict[str, str]:
    """All answers to `llmperf_worker_env`; PluginError that names both when two set one name differently."""
    joined: dict[str, str] = {}
    owners: dict[str, str] = {}
    for owner, answer in plugins.collect("llmperf_worker_env", plan=plan):
        if not isinstance(answer, Mapping):
            found = type(answer).__name__
            raise PluginError(f"{plugins.who(owner)}: expected names and values of llmperf_worker_env, found {found}")
        for name, value in answer.items():
            if not isinstance(value, str):
                raise PluginError(f"{owner} sets {name} to {value!r}; expected text")
            if joined.get(name, value) != value:
                raise PluginError(f"{owners[name]} and {owner} disagree on {name}: {joined[name]!r} against {value!r}")
            joined[name] = value
            owners[name] = owner
    return dict(sorted(joined.items()))
