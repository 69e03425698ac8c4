"""Fixtures of tests with a plugin that does harm."""

from __future__ import annotations

import os
import sys

import pytest

VENDOR = """
import os, signal, sys, threading, time
from llmperf import hookimpl
# IMPORT

def probe(simulated=False):
    from llmperf.types import DeviceInfo, Offers, Probe
    offers = Offers(precisions=("fp32",), runtimes=("torch",), collective_backend="gloo")
    device = DeviceInfo(index=0, model="Bad B1", memory_bytes=2**34, kind="cpu", divisible=True)
    return Probe(vendor="bad", devices=(device,), offers=offers, simulated=simulated)

@hookimpl
def llmperf_probe():
    # PROBE
    return probe(simulated=True)

@hookimpl
def llmperf_catalogue():
    # CATALOGUE
    return [probe(simulated=True)]

@hookimpl
def llmperf_peak_flops(device_model, dtype):
    # PEAK
    return "no peak is known"
"""
EXTENSION = """
import os, signal, sys, threading, time
from llmperf import hookimpl
from llmperf.types import Facts, Rule
# IMPORT

def check(result):
    # RULE
    return []

@hookimpl
def llmperf_rules():
    # RULES
    return [Rule(code="BAD1", severity="error", title="bad", check=check)]

class Reporter:
    name = "bad"
    def render(self, results, language):
        # RENDER
        return "fine"

@hookimpl
def llmperf_reporters():
    # REPORTERS
    return [Reporter()]

@hookimpl
def llmperf_document_kinds():
    # KINDS
    return []

@hookimpl
def llmperf_facts():
    # FACTS
    return Facts()

@hookimpl
def llmperf_resources():
    # RESOURCES
    return []

@hookimpl
def llmperf_observers():
    # OBSERVERS
    return []
"""
COMMAND = '''"""A command of an extension."""
import os, signal, sys, threading, time
import click
# COMMAND

@click.command("spoil")
def command():
    click.echo("spoilt")
'''


@pytest.fixture
def site(tmp_path, announced):
    """A function that installs a plugin for other processes and gives the environment in which they find it."""

    def put(role: str, place: str, statement: str, name: str = "bad") -> dict[str, str]:
        source = EXTENSION if role == "extension" else VENDOR
        folder = tmp_path / "site"
        folder.mkdir(exist_ok=True)
        if role == "framework":
            source = (
                source.partition("\ndef probe")[0] + EXTENSION.partition("# IMPORT\n")[2].split("@hookimpl\ndef l")[0]
            )
            source += "from llmperf.types import Rule\n@hookimpl\ndef llmperf_rules():\n    # RULES\n"
            source += '    return [Rule(code="BAD1", severity="error", title="bad", check=check)]\n'
        (folder / f"llmperf_{name}.py").write_text(source.replace(f"# {place}\n", f"{statement}\n"))
        (folder / f"llmperf_{name}_command.py").write_text(COMMAND.replace(f"# {place}\n", f"{statement}\n"))
        spoiling = {"command": f"spoil = llmperf_{name}_command"} if place == "COMMAND" else {}
        announced(folder, f"llmperf-{name}", **{role: f"{name} = llmperf_{name}"}, **spoiling)
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "LLMPERF_PLUGIN_SECONDS": "1"}

    return put


@pytest.fixture
def forged(tmp_path, example, saved):
    """A result whose figures do not agree."""
    example["parameters"] *= 2
    return saved(tmp_path / "forged" / "result.json", example)
