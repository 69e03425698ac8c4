"""The conformance kit as its users meet it: the command, and classes for pytest."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import llmperf_testing
import pytest
from llmperf.plugins.mending import pip_command
from llmperf.types.result import Failure
from llmperf_cpu.device import CpuDevice
from llmperf_testing import running
from llmperf_testing.checks.training import failure_text
from llmperf_testing.drawn_case import drawn_case
from llmperf_testing.framework import FrameworkSubject
from llmperf_testing.observations import Bound, Fresh
from llmperf_testing.programs.device import TorchWork, worked
from llmperf_testing.running import checks_of, outcome, subject_of

VENDOR = """
from llmperf import hookimpl
from llmperf.types import DeviceInfo, Offers, Probe

@hookimpl
def llmperf_probe():
    offers = Offers(precisions=("fp32",), runtimes=("torch",), collective_backend="gloo")
    return Probe(vendor="{vendor}", devices=(), offers=offers, problems=("no driver",))

@hookimpl
def llmperf_setup_device(plan, local_rank):
    raise NotImplementedError
"""
TESTS = """
from llmperf_testing import FrameworkContract, VendorContract

class TestAcme(VendorContract):
    plugin = "acme"

class TestNobody(FrameworkContract):
    plugin = "acme"

class TestNameless(VendorContract):
    pass
"""


@pytest.fixture
def acme(install, tmp_path, on_path):
    """A function that installs vendor `acme`, for processes started from here too; its probe may name another."""
    on_path(tmp_path)

    def put(vendor="acme"):
        install("llmperf-acme", "acme", VENDOR.format(vendor=vendor), requires=("llmperf-core",))

    return put


def test_the_table_says_what_passed_and_why_others_were_skipped(acme, ran):
    acme()
    table = ran(0, "check-plugin", "acme").out
    assert "probe-has-its-shape" in table
    assert "synchronize-blocks" in table
    assert "no device of acme here: no driver" in table
    assert " 0 failed" in table


def test_a_failed_check_says_what_was_expected_and_found(acme, ran):
    acme(vendor="other")
    told = json.loads(ran(1, "check-plugin", "acme", "--json").out)
    (failed,) = [one for one in told["checks"] if one["state"] == "failed"]
    assert (failed["check"], told["failed"]) == ("probe-has-its-shape", 1)
    assert "expected 'acme', found 'other'" in failed["message"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["acmee"], "did you mean 'acme'?"),
        (["acme", "--vendor", "acme"], "--vendor, --set, --case, --reference and --seed are for frameworks"),
        (["pytorch", "--set", "modle=x"], "did you mean 'model'?"),
        (["pytorch", "--vendor", "acme"], "sees no device here: no driver"),
        (["pytorch", "--case", "nosuch.toml"], "nosuch.toml: No such file"),
        (["pytorch", "--case", "defualt"], "did you mean 'default'?"),
        (["pytorch", "--case", "default", "--set", "model=./no.toml"], "/no.toml (./no.toml, relative to the working"),
        (["pytorch", "--set", "model=llama_tny"], "did you mean 'llama_tiny'?"),
        (["pytorch", "--reference", "pytroch"], "did you mean 'pytorch'?"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(acme, ran, words, said):
    acme()
    lines = ran(2, "check-plugin", *words).err.strip().splitlines()
    assert said in lines[-1]
    assert lines[-1].startswith("llmperf: ")


ACCELERATOR = """
from llmperf import hookimpl
from llmperf.types import DeviceInfo, Offers, Probe

@hookimpl
def llmperf_probe():
    offers = Offers(precisions=("fp32",), runtimes=("abacus",), collective_backend="beads")
    return Probe(vendor="beads", devices=(DeviceInfo(index=0, model="B1", memory_bytes=None),), offers=offers)
"""


@pytest.mark.slow
def test_a_framework_is_tried_on_the_host_where_the_devices_are_not_for_its_runtime(install):
    install("llmperf-beads", "beads", ACCELERATOR)
    with subject_of("framework", "pytorch") as subject:
        assert subject.draft.machine.vendor == "cpu"
        assert subject.draft.problems == ()
    with subject_of("framework", "pytorch", vendor="beads") as subject:
        assert subject.draft.machine.vendor == "beads"


@pytest.mark.slow
def test_the_vendor_that_was_chosen_and_the_last_line_of_the_log_are_shown(install, ran, monkeypatch):
    kept = [check for check in running.checks_of("framework") if check.name == "plan-has-its-shape"]
    monkeypatch.setattr(running, "checks_of", lambda role: kept)
    assert "framework pytorch on devices of vendor cpu, seed " in ran(0, "check-plugin", "pytorch").out
    assert "seed 7\n" in ran(0, "check-plugin", "pytorch", "--seed", "7").out
    log = ("Traceback", "OSError: no beads", "")
    failure = Failure(rank=0, reason="exited", exception=None, message="exit code 1", log_tail=log)
    assert failure_text(failure).endswith("; the last line of its log: 'OSError: no beads'")


EXTENSION = """
from dataclasses import dataclass
from llmperf import hookimpl
from llmperf.types import CommandOptions, Node, ResultSection, Row, Rule

class Sessions:
    name = "sessions"
    def nodes(self, request):
        return [Node(host="localhost", address="127.0.0.1") for _ in range(request.nodes)]
    def commands(self, nodes):
        return list(nodes)

@hookimpl
def llmperf_launchers():
    return [Sessions()]

class Steps:
    name = "tools steps"
    def started(self, plan, folder):
        self.path = folder / "steps"
    def progress(self, progress):
        pass
    def steps(self, steps):
        self.path.write_text(str([step.loss for step in steps]))
    def ended(self, result, folder):
        self.path.with_name(result.status if result else "failed").touch()

@hookimpl
def llmperf_observers():
    return [Steps()]

class Cells:
    name = "cells"
    def render(self, sheets, language):
        return "".join(f"{sheet.cell('model').value}\\n" for sheet in sheets)

@hookimpl
def llmperf_reporters():
    return [Cells()]

def check(result):
    yield "/hardware/driver", "expected another driver"

@hookimpl
def llmperf_rules():
    yield Rule(code="TOOLS1", severity="note", title="A driver", check=check, page="# TOOLS1: A driver")

@dataclass(frozen=True)
class Figures:
    files: int

@hookimpl
def llmperf_result_sections():
    def compute(plan, result, run):
        return Figures(len(list(run.iterdir())))

    def rows(figures, result):
        yield Row(key="files", label="files", value=figures.files)

    yield ResultSection(name="tools", figures=Figures, compute=compute, rows=rows)

@hookimpl
def llmperf_command_options(command):
    import click

    yield CommandOptions(options=[click.Option(["--tools"])])
"""


@pytest.fixture
def unobserved(monkeypatch):
    """No process of its own looks at the import of a plugin."""
    fresh = Fresh(imported_by_discovery=False, bare_cpu_seconds=0.01)
    monkeypatch.setattr("llmperf_testing.subject.observe", lambda *_, **__: fresh)


@pytest.mark.parametrize(
    ("old", "new", "failed", "message"),
    [
        ("", "", None, ""),
        ("request.nodes", "request.count", "launchers-give-commands", "'sessions': nodes raised AttributeError"),
        ('[Node(host="localhost", address="127.0.0.1")', '[("localhost")', "launchers-give-commands", "expected Nodes"),
        ("step.loss for", "step.nats for", "observers-follow-a-run", "observer 'tools steps': steps raised"),
        ('(result.status if result else "failed")', "(result.status)", "observers-follow-a-run", "ended with None"),
        ("def progress", "def tick", "observers-follow-a-run", "'tools steps' has no method progress"),
        ("for sheet in sheets", "for _, sheet in sheets", "reporters-give-text", "reporter 'cells' raised"),
        ('severity="note"', 'severity="note", kinds=("resultt",)', "rules-give-findings", "did you mean 'result'?"),
        ('"/hardware/driver"', '"hardware.driver"', "rules-give-findings", "JSON pointer, such as"),
        ("run.iterdir", "run.itemdir", "sections-have-figures", "section 'tools': compute raised AttributeError"),
        ('name="tools"', 'name="my-tools"', "sections-have-figures", "expected lower-case letters"),
        ("figures.files", "figures.folders", "sections-have-figures", "section 'tools': rows raised"),
        ('"--tools"', '"--out"', "options-are-its-own", "options of run: --out is the command's own"),
        ("TOOLS1", "LP990", "rules-give-findings", "expected a prefix of the package's own, found LP"),
    ],
)
def test_what_an_extension_adds_is_tried(install, unobserved, old, new, failed, message):
    install("llmperf-tools", "forge-tools", EXTENSION.replace(old, new) if old else EXTENSION, role="extension")
    subject = subject_of("extension", "forge-tools")
    additions = ("observers-follow-a-run", "reporters-give-text", "rules-give-findings")
    additions += ("sections-have-figures", "options-are-its-own")
    names = ("found-by-metadata", "launchers-give-commands", *additions)
    made = [outcome(subject, check) for check in checks_of("extension") if check.name in names]
    assert len(made) == len(names)
    assert [one.check for one in made if one.state != "passed"] == ([failed] if failed else []), made
    assert not failed or message in next(one.message for one in made if one.check == failed)


@pytest.mark.slow
def test_classes_give_a_test_for_each_check(acme, tmp_path):
    acme()
    (tmp_path / "test_acme.py").write_text(TESTS)
    argv = [sys.executable, "-m", "pytest", "-q", "-rsfE", "-p", "no:cacheprovider", "-W", "ignore", "test_acme.py"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1, done.stdout
    assert "FAILED" not in done.stdout
    assert "no device of acme here: no driver" in done.stdout
    assert "framework 'acme' is not installed" in done.stdout or "unknown framework 'acme'" in done.stdout
    assert 'TestNameless: expected plugin = "the name of the plugin"' in done.stdout


def test_without_pytest_the_classes_say_what_to_install():
    program = "import sys; sys.modules['pytest'] = None\nfrom llmperf_testing import VendorContract"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    last = done.stderr.strip().splitlines()[-1]
    assert last == f"ImportError: VendorContract needs pytest: {pip_command('install', 'pytest>=8')}"


@pytest.mark.slow
def test_the_command_needs_no_pytest(acme):
    acme()
    program = "import sys; sys.modules['pytest'] = None\nfrom llmperf.cli.main import call\n"
    program += "sys.exit(call(['check-plugin', 'acme', '--fast']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_an_accelerator_is_given_work_and_memory_through_torch():
    device = CpuDevice()
    seen = worked(Bound(), device, TorchWork("cpu", device))
    assert (seen.event_error, seen.memory_error, seen.product_error) == (None, None, None)
    assert all(one.reached and 0.05 < one.event_seconds < 10 for one in seen.stretches)
    before, with_block, *_ = seen.peaks
    assert with_block - before > 0.5 * seen.taken_bytes


@pytest.mark.parametrize(
    ("name", "check_name", "state"),
    [
        ("html", "reporters-give-text", "passed"),
        ("flagperf", "reporters-give-text", "skipped"),  # it refuses runs on shared devices
        ("kubernetes", "launchers-give-commands", "skipped"),  # there is no cluster
        ("slurm", "launchers-give-commands", "skipped"),
        ("verify", "rules-give-findings", "passed"),  # it has a rule over `run`
    ],
)
def test_an_addition_that_refuses_in_words_has_not_failed(name, check_name, state, unobserved, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/dev/null")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with subject_of("extension", name) as subject:
        (check,) = [check for check in checks_of("extension") if check.name == check_name]
        assert outcome(subject, check).state == state


SOURCE = Path(llmperf_testing.__file__).parent
PUBLIC = {"llmperf", "llmperf.errors", "llmperf.hookspecs", "llmperf.lazy", "llmperf.types"}

MOST = 30
"""Private modules that are still imported; lower it when an import goes."""


def test_the_kit_imports_no_more_private_modules_of_core_than_before():
    modules: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "llmperf":
                modules.add(node.module)
            elif isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names if alias.name.split(".")[0] == "llmperf"}
    found = sorted({name for name in modules if name not in PUBLIC and not name.startswith("llmperf.types.")})
    assert len(found) <= MOST, found


def test_a_seed_repeats_the_case_and_another_draws_another():
    assert drawn_case(7) == drawn_case(7)
    assert len({drawn_case(seed).settings for seed in range(50)}) == 50
    assert len({drawn_case(seed).model for seed in range(50)}) > 20


@pytest.mark.slow
def test_frameworks_train_the_drawn_contract_and_settings_replace_it():
    with FrameworkSubject("pytorch", seed=7, settings=("seq_len=16",)) as subject:
        spec, drawn = subject.draft.spec, dict(setting.split("=", 1) for setting in subject.drawn.settings)
        assert spec.model.name == subject.drawn.model_name
        assert (spec.contract.dataset, spec.contract.seed) == (drawn["dataset"], int(drawn["seed"]))
        assert (spec.contract.steps, spec.contract.seq_len) == (int(drawn["steps"]), 16)
        assert subject.draft.problems == ()
