"""Each hook's example is registered and, where it can be, called."""

from __future__ import annotations

import doctest
from pathlib import Path
from types import SimpleNamespace

import llmperf
import numpy as np
import pytest
from llmperf import hookspecs, types
from llmperf.hookspecs import OWNERS
from llmperf.plugins.found import Found
from llmperf.plugins.loading import Plugins

ARGUMENTS = {
    "llmperf_resources": {},
    "llmperf_facts": {},
    "llmperf_command_options": {"command": "run"},
    "llmperf_probe": {},
    "llmperf_catalogue": {},
    "llmperf_peak_flops": {"device_model": "Acme A1", "dtype": "fp32"},
    "llmperf_time_peak": {"device_model": "Acme A1", "dtype": "fp32"},
    "llmperf_count_flops": {"model": None, "workload": None},
    "llmperf_plan_checks": {"plan": SimpleNamespace(vendor="acme", layout=SimpleNamespace(world_size=16))},
    "llmperf_worker_env": {"plan": None},
    "llmperf_rank_records": {"plan": None, "rank": 0, "trainer": None},
    "llmperf_query_memory": {"devices": (0, 1)},
    "llmperf_read_tokens": {"dataset": "acme-dna", "data": SimpleNamespace(path=__file__), "records": False},
    "llmperf_rules": {},
    "llmperf_document_kinds": {},
    "llmperf_translations": {"language": "zh"},
    "llmperf_parse_log": {"line": "iteration 1"},
}
"""Of the hooks whose example needs nothing that only a run has."""


def example(hook: str):
    """The function that a hook's docstring shows, as a plugin would define it."""
    scope = {name: getattr(types, name) for name in types.__all__} | {"llmperf": llmperf, "Path": Path, "np": np}
    scope["__file__"] = __file__
    for one in doctest.DocTestParser().get_examples(getattr(hookspecs, hook).__doc__ or ""):
        exec(one.source, scope)
    return scope[hook]


@pytest.mark.parametrize("hook", OWNERS)
def test_the_example_is_a_valid_plugin(hook):
    role = OWNERS[hook][0]
    plugin = SimpleNamespace(**{hook: example(hook)})
    Plugins().register(plugin, Found("example", role, "example", "llmperf-example", "1.0"))


@pytest.mark.parametrize("hook", ARGUMENTS)
def test_the_example_answers(hook):
    answer = example(hook)(**ARGUMENTS[hook])
    assert answer is not None or hook in ("llmperf_count_flops", "llmperf_parse_log")


@pytest.mark.parametrize("hook", OWNERS)
def test_every_docstring_says_when_and_who(hook):
    text = getattr(hookspecs, hook).__doc__
    assert text.startswith("Called in ")
    assert "own" in text or "answer" in text
    assert len(text.split(">>>")[1].splitlines()) <= 9
