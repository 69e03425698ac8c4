"""Discovery by metadata, loading by name, roles and owners: with real distributions on a real path."""

import doctest
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import llmperf
import numpy as np
import pytest
from llmperf import hookspecs, types
from llmperf.errors import PluginError
from llmperf.hookspecs import OWNERS
from llmperf.planning.vendors import probe
from llmperf.plugins.discovery import Found, discover, find
from llmperf.plugins.facts import joined_facts
from llmperf.plugins.loading import CORE_HOOKS, Plugins, plugins_for
from llmperf.types import Facts, HostCheck

PROBE = """
from llmperf import hookimpl

@hookimpl
def llmperf_probe():
    from llmperf.types import DeviceInfo, Offers, Probe
    offers = Offers(precisions=("fp32",), runtimes=("torch",), collective_backend="gloo")
    return Probe(vendor="acme", devices=(DeviceInfo(index=0, model="Acme A1", memory_bytes=2**34),), offers=offers)
"""


def test_discovery_does_not_import_a_plugin(install):
    install("llmperf-explosive", "explosive", "raise RuntimeError('imported')")
    assert "explosive" in [one.name for one in discover()]


def test_two_distributions_of_one_name_are_both_named(install):
    install("llmperf-first", "same", PROBE)
    install("llmperf-second", "same", PROBE)
    with pytest.raises(PluginError, match=r"llmperf-first 1\.0 and llmperf-second 1\.0"):
        find("vendor", "same")


FLOPS = """
from llmperf import hookimpl

@hookimpl
def llmperf_count_flops(model, workload):
    return "counted by an extension"
"""
MOVED = " cannot be imported: ImportError: llmperf.PeakTable is now llmperf_vendorkit.PeakTable"


@pytest.mark.parametrize(
    ("role", "source", "problem"),
    [
        ("vendor", "raise RuntimeError('no licence')", " cannot be imported: RuntimeError: no licence"),
        ("vendor", PROBE.replace("llmperf_probe", "llmperf_prode"), "'llmperf_prode'; did you mean 'llmperf_probe'"),
        ("vendor", PROBE.replace("llmperf_probe()", "llmperf_check_result()"),
         ": hook 'llmperf_check_result' was removed; use llmperf_rules, which yields a Rule with a code, a severity"),
        ("vendor", "from llmperf import PeakTable", MOVED),
        ("vendor", "import llmperf\nllmperf.PeakTable", MOVED),
        ("vendor", PROBE.replace("llmperf_probe()", "llmperf_probe(device)"), "Argument(s) {'device'} are declared"),
        ("framework", PROBE, "answers llmperf_probe, which only vendor may answer"),
        ("vendor", FLOPS, "llmperf_count_flops, which only extension or core may answer"),
    ],
)  # fmt: skip
def test_a_plugin_that_does_not_fit_is_an_error_that_names_it_and_what_would(install, role, source, problem):
    install("llmperf-acme", "acme", source, role=role)
    with pytest.raises(PluginError) as caught:
        Plugins([find(role, "acme")])
    assert str(caught.value).startswith(f"{role} 'acme' (llmperf-acme)")
    assert problem in str(caught.value)


def test_removed_hooks_are_not_hooks_and_their_successors_are():
    for name, instead in hookspecs.REMOVED.items():
        assert name not in hookspecs.OWNERS
        assert instead.partition(",")[0] in hookspecs.OWNERS


def test_a_plugin_that_answers_a_hook_which_will_go_is_warned_once_and_works(install, monkeypatch, capsys):
    announced = hookspecs.hookspec(firstresult=True, warn_on_impl=hookspecs.going("llmperf_probe", "llmperf_catalogue"))
    monkeypatch.setattr(hookspecs, "llmperf_probe", announced(lambda: None))
    install("llmperf-early", "early", PROBE)
    for _ in range(2):
        assert Plugins([find("vendor", "early")]).ask("llmperf_probe").vendor == "acme"
    assert capsys.readouterr().err == (
        "llmperf: vendor 'early' (llmperf-early): the next minor version of llmperf-core removes the hook"
        " 'llmperf_probe'; use llmperf_catalogue\n"
    )


def test_moved_names_have_gone_and_are_where_the_error_says():
    for name, now in llmperf._MOVED.items():
        assert name not in llmperf.__all__
        module, _, attribute = now.rpartition(".")
        assert hasattr(import_module(module), attribute)


@pytest.mark.parametrize("turned", [False, True])
def test_a_second_answer_names_both_in_any_order(install, turned):
    install("llmperf-one", "one", PROBE)
    install("llmperf-two", "two", PROBE)
    chosen = [find("vendor", "one"), find("vendor", "two")]
    with pytest.raises(PluginError, match="llmperf_probe is answered by vendor:one and vendor:two"):
        Plugins(reversed(chosen) if turned else chosen)


def test_an_extension_is_asked_for_the_flop_count_before_the_core_and_only_one_may_be(install):
    install("llmperf-ours", "ours", FLOPS, role="extension")
    install("llmperf-theirs", "theirs", FLOPS, role="extension")
    ours, theirs = find("extension", "ours"), find("extension", "theirs")
    assert Plugins([ours]).ask("llmperf_count_flops", model=None, workload=None) == "counted by an extension"
    with pytest.raises(PluginError, match="llmperf_count_flops is answered by extension:ours and extension:theirs"):
        Plugins([ours, theirs])


@pytest.mark.parametrize(("version", "upgrade"), [("v0", "llmperf-acme"), ("v2", "llmperf-core")])
def test_a_plugin_for_another_api_version_is_not_imported_and_says_what_to_upgrade(install, version, upgrade):
    install("llmperf-acme", "acme", "raise RuntimeError('imported')", version=version)
    with pytest.raises(PluginError, match=rf"API {version}; this llmperf speaks v1; upgrade {upgrade}$"):
        find("vendor", "acme")


def test_the_record_has_version_and_source_hash(install):
    install("llmperf-recorded", "recorded", PROBE)
    infos = {one.name: one for one in Plugins([find("vendor", "recorded")]).infos()}
    assert infos["recorded"].version == "1.0"
    assert len(infos["recorded"].source_hash or "") == 64
    assert infos["core"].distribution == "llmperf-core"


def test_a_slow_probe_is_named_while_llmperf_waits(install, monkeypatch, capsys):
    monkeypatch.setattr("llmperf.plugins.faults.SLOW_SECONDS", 0.05)
    slow = (
        "    import sys, time; end = time.monotonic() + 60\n"
        "    while 'still waiting' not in sys.stderr.getvalue() and time.monotonic() < end: time.sleep(0.01)\n"
        "    from llmperf.types"
    )
    install("llmperf-slow", "acme", PROBE.replace("    from llmperf.types", slow))
    assert probe("acme").devices
    assert capsys.readouterr().err == "llmperf: still waiting for llmperf_probe of vendor 'acme' (llmperf-slow)\n"


def test_native_code_and_children_of_a_plugin_leave_standard_output_alone(install, tmp_path):
    noise = "    import os; os.write(1, b'native'); os.system('echo child')\n    from llmperf.types"
    install("llmperf-noisy", "acme", PROBE.replace("    from llmperf.types", noise))
    done = subprocess.run([sys.executable, "-m", "llmperf", "devices", "--json"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Acme A1" in [
        device["model"] for vendor in json.loads(done.stdout)["probes"] for device in vendor["devices"]
    ]
    assert "native" in done.stderr
    assert "child" in done.stderr


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
