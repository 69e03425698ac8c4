"""Facts of plugins: joined from all that are loaded, refused in one line when they are none."""

from types import SimpleNamespace

import llmperf
import pytest
from llmperf.errors import PluginError
from llmperf.plugins.facts import joined_facts
from llmperf.plugins.found import Found
from llmperf.plugins.loading import Plugins
from llmperf.types import Facts, HostCheck


def plugins_with(**answers):
    plugins = Plugins()
    for name, answer in answers.items():
        hook = llmperf.hookimpl(lambda answer=answer: answer)
        plugin = SimpleNamespace(llmperf_facts=hook)
        plugins.register(plugin, Found(name, "extension", name, f"llmperf-{name}", "1.0"))
    return plugins


def test_the_facts_of_all_plugins_are_joined_without_duplicates():
    compiler = HostCheck(subject="compiler", problem=lambda: None)
    first = Facts(environment_names=("A", "B"), packages=("lib",), device_aliases={"acme": ("acme",)})
    second = Facts(
        environment_names=("B", "C"), device_aliases={"acme": ("roadrunner",)}, host_checks=(compiler,),
        waiting_frames=("lib/wait.py",),
    )  # fmt: skip
    facts = joined_facts(plugins_with(first=first, second=second))
    assert [name for name in facts.environment_names if name in "ABC"] == ["A", "B", "C"]
    assert "lib" in facts.packages
    assert "lib/wait.py" in facts.waiting_frames
    assert facts.device_aliases == {"acme": ("acme", "roadrunner")}
    assert facts.host_checks == (compiler,)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"packages": ()}, "expected Facts, found dict"),
        (Facts(packages="torch"), "packages: expected a tuple of texts"),
        (Facts(waiting_frames=("",)), "waiting_frames: expected a tuple of texts"),
        (Facts(device_aliases={"acme": "acme"}), "device_aliases.acme: expected a tuple of texts"),
        (Facts(host_checks=("g++",)), "host_checks: expected HostCheck, found str"),
    ],
)
def test_other_answers_are_errors_that_name_the_plugin(answer, message):
    with pytest.raises(PluginError, match=rf"extension 'bad' \(llmperf-bad\): llmperf_facts: {message}"):
        joined_facts(plugins_with(bad=answer))
